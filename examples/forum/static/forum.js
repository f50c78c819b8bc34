// Adds keyboard shortcuts. Every page works without this script.
"use strict";

const titles = () => [...document.querySelectorAll(".threads .title, .cards .title")];

function step(by) {
  const all = titles();
  const here = all.findIndex((title) => title.closest("li").contains(document.activeElement));
  const next = here < 0 ? (by > 0 ? 0 : all.length - 1) : here + by;
  all[Math.min(Math.max(next, 0), all.length - 1)]?.focus();
}

const keys = {
  j: () => step(1),
  k: () => step(-1),
  n: () => document.querySelector("a[rel=next]")?.click(),
  p: () => document.querySelector("a[rel=prev]")?.click(),
  g: () => document.getElementById("page")?.select(),
  r: () => document.querySelector(".write textarea")?.focus(),
};

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, textarea, select");
  if (event.key === "Escape") {
    document.querySelectorAll("details[open]").forEach((each) => {
      each.open = false;
      each.querySelector("summary").focus();
    });
  } else if (keys[event.key] && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    keys[event.key]();
  }
});

// Close a menu on a click outside it, so that only one menu is open at any time.
document.addEventListener("click", (event) => {
  document.querySelectorAll("details[open]").forEach((each) => {
    if (!each.contains(event.target)) each.open = false;
  });
});
