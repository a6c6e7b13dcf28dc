/**
 * The page's script: polls for updates once a second and puts them in place, and searches while the user types. It
 * keeps expanded rows, the selection and the focus, and does not poll while the page is hidden.
 */
export const LIVE_SCRIPT = `
(() => {
  const EVERY_MS = 1000, TIMEOUT_MS = 10000, TYPING_MS = 150;
  const places = new Map([...document.querySelectorAll("[data-part]")].map((place) => [place.dataset.part, place]));
  const connection = document.getElementById("connection");
  const search = document.getElementById("search"), explain = document.getElementById("explain");
  const shown = new Map(), waiting = new Map();
  let view = new URLSearchParams(location.search);
  let seen = document.body.dataset.stamp;
  let behindMs = 0, timer, typing, polls = 0;
  search.classList.add("live");

  const ageText = (seconds) =>
    seconds < 1 ? "now" : seconds < 120 ? seconds + " s ago" : seconds < 7200 ? Math.floor(seconds / 60) + " min ago"
      : seconds < 172800 ? Math.floor(seconds / 3600) + " h ago" : Math.floor(seconds / 86400) + " d ago";
  const updateAges = () => {
    for (const time of document.querySelectorAll("main time")) {
      const text = ageText(Math.max(0, Math.round((Date.now() + behindMs - Date.parse(time.dateTime)) / 1000)));
      if (time.textContent !== text) time.textContent = text;
      time.title = time.dateTime;
    }
  };

  const isBeingRead = (place) => {
    const selection = getSelection();
    return selection !== null && !selection.isCollapsed && place.contains(selection.anchorNode);
  };
  const put = (place, markup) => {
    const before = new Map([...place.querySelectorAll("details")].map((one) => [one.dataset.key, one.open]));
    const chosen = place.value;
    const focus = place.contains(document.activeElement) ? document.activeElement.closest("[data-key]") : null;
    place.innerHTML = markup;
    if (chosen !== undefined) place.value = chosen;
    for (const one of place.querySelectorAll("details")) {
      if (before.has(one.dataset.key)) one.open = before.get(one.dataset.key);
      if (focus !== null && one.dataset.key === focus.dataset.key) {
        one.querySelector("summary").focus({ preventScroll: true });
      }
    }
  };
  const putWaiting = () => {
    for (const [name, markup] of waiting) {
      const place = places.get(name);
      if (isBeingRead(place)) continue;
      waiting.delete(name);
      if (shown.get(name) !== markup) put(place, markup);
      shown.set(name, markup);
    }
    updateAges();
  };

  const poll = async () => {
    clearTimeout(timer);
    const current = ++polls;
    const query = new URLSearchParams(view);
    query.set("seen", seen);
    try {
      const response = await fetch("/live?" + query, { signal: AbortSignal.timeout(TIMEOUT_MS) });
      if (!response.ok) throw new Error(await response.text());
      const { stamp, atMs, parts } = await response.json();
      if (current !== polls) return;
      seen = stamp;
      behindMs = atMs - Date.now();
      for (const [name, markup] of Object.entries(parts)) waiting.set(name, markup);
      document.body.className = "live";
      connection.textContent = "live";
    } catch (error) {
      if (current !== polls) return;
      document.body.className = "lost";
      connection.textContent = "no answer from the proxy: this is the last that was seen";
    }
    putWaiting();
    if (!document.hidden) timer = setTimeout(poll, EVERY_MS);
  };

  const show = (next) => {
    for (const [name, value] of [...next]) if (value === "") next.delete(name);
    view = next;
    history.replaceState(null, "", view.size === 0 ? "/" : "/?" + view);
    seen = "";
    poll();
  };
  const showForms = () => {
    clearTimeout(typing);
    show(new URLSearchParams([...new FormData(search), ...new FormData(explain)]));
  };
  for (const form of [search, explain]) {
    for (const kept of form.querySelectorAll("input[type=hidden]")) kept.remove();
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      showForms();
    });
  }
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(showForms, TYPING_MS);
  });
  // An emptied field has nothing to submit.
  explain.addEventListener("input", () => explain.elements.to.value === "" && showForms());
  document.querySelector("main").addEventListener("click", (event) => {
    const link = event.target.closest("a[data-view]");
    if (link === null || event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    const next = new URL(link.href).searchParams;
    const isExplanation = next.get("to") !== view.get("to") && next.has("to");
    for (const [name, field] of [["q", search.elements.q], ["ns", search.elements.ns], ["to", explain.elements.to],
      ["from", explain.elements.from]]) field.value = next.get(name) ?? "";
    search.elements.show.checked = next.get("show") !== null;
    show(new URLSearchParams(next));
    (isExplanation ? explain : search).scrollIntoView({ block: "nearest" });
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select")) return;
    event.preventDefault();
    search.elements.q.focus();
  });
  document.addEventListener("visibilitychange", () => document.hidden ? clearTimeout(timer) : poll());
  poll();
})();
`;
