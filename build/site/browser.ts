/** The script of the pages: the search. The sections are loaded when the search field gets the focus. */
/// <reference lib="dom" />
import type { Section } from "./markdown.ts";
import { createSearch, type Match } from "./search.ts";

const SHOWN = 8;

const box = document.querySelector("search")!;
const input = box.querySelector("input")!;
const list = box.querySelector("ul")!;

type Search = ReturnType<typeof createSearch>;
let loading: Promise<Search> | undefined;
let selected = -1;

/** Loads the sections, once; after a failure, the next call tries again. */
function load(): Promise<Search> {
  loading ??= fetch("sections.json").then((response) => response.json())
    .then((sections: readonly Section[]) => createSearch(sections));
  loading.catch(() => loading = undefined);
  return loading;
}

function item({ section, excerpt }: Match, index: number): HTMLElement {
  const title = document.createElement("strong");
  title.textContent = section.title === section.page ? section.title : `${section.page} › ${section.title}`;
  const text = document.createElement("span");
  text.textContent = excerpt;
  const link = document.createElement("a");
  link.href = section.id;
  link.tabIndex = -1;
  link.append(title, text);
  const one = document.createElement("li");
  one.id = `result-${index}`;
  one.role = "option";
  one.append(link);
  return one;
}

function note(text: string): HTMLElement {
  const one = document.createElement("li");
  one.className = "note";
  one.textContent = text;
  return one;
}

function select(index: number): void {
  const items = [...list.querySelectorAll('[role="option"]')];
  selected = items.length === 0 ? -1 : (index + items.length) % items.length;
  items.forEach((one, i) => one.ariaSelected = String(i === selected));
  items[selected]?.scrollIntoView({ block: "nearest" });
  if (selected >= 0) input.setAttribute("aria-activedescendant", `result-${selected}`);
  else input.removeAttribute("aria-activedescendant");
}

function show(content: readonly HTMLElement[]): void {
  list.replaceChildren(...content);
  list.hidden = content.length === 0;
  input.ariaExpanded = String(!list.hidden);
  select(0);
}

async function update(): Promise<void> {
  const query = input.value.trim();
  if (query === "") return show([]);
  try {
    const search = await load();
    if (query !== input.value.trim()) return;
    const matches = search(query, SHOWN);
    show(matches.length > 0 ? matches.map(item) : [note(`Nothing contains “${query}”.`)]);
  } catch {
    show([note("The search needs a web server and a connection to it.")]);
  }
}

function onKey(event: KeyboardEvent): void {
  if (event.key === "ArrowDown") select(selected + 1);
  else if (event.key === "ArrowUp") select(selected - 1);
  else if (event.key === "Enter") list.querySelectorAll("a")[selected]?.click();
  else if (event.key === "Escape") {
    input.value = "";
    show([]);
    return input.blur();
  } else return;
  event.preventDefault();
}

box.hidden = false;
input.addEventListener("focus", () => void load().catch(() => {}));
input.addEventListener("input", () => void update());
input.addEventListener("keydown", onKey);
list.addEventListener("click", () => show([]));
document.addEventListener("click", (event) => {
  if (!box.contains(event.target as Node)) show([]);
});
document.addEventListener("keydown", (event) => {
  const isTyping = event.target instanceof HTMLInputElement;
  if (isTyping || event.key !== "/" || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  input.focus();
});
