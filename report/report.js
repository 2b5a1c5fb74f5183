// SPDX-License-Identifier: Apache-2.0
"use strict";
// Buttons that copy a command. Without scripts they stay hidden, and the text
// can be selected.
function copied(text, code) {
  // Where there is no clipboard, or nobody may write there, it is selected.
  var range = document.createRange();
  range.selectNodeContents(code);
  var selection = window.getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
  if (navigator.clipboard && window.isSecureContext)
    return navigator.clipboard.writeText(text);
  return document.execCommand("copy") ? Promise.resolve() : Promise.reject();
}
document.querySelectorAll("button.copy").forEach(function (button) {
  var code = button.parentElement.querySelector("code");
  button.hidden = false;
  button.setAttribute("aria-live", "polite");
  button.addEventListener("click", function () {
    copied(code.textContent, code).then(
      function () { button.textContent = "Copied"; },
      function () { button.textContent = "Selected"; });
    setTimeout(function () { button.textContent = "Copy"; }, 2000);
  });
});
// Links to something that is folded away open it.
function opened() {
  var target = location.hash && document.getElementById(location.hash.slice(1));
  for (var one = target; one; one = one.parentElement)
    if (one.tagName === "DETAILS") one.open = true;
  if (target) target.scrollIntoView();
}
window.addEventListener("hashchange", opened);
window.addEventListener("beforeprint", function () {
  document.querySelectorAll("#failures details").forEach(function (one) {
    one.open = true;
  });
});
opened();
