/** Draws the rooms and their imports into ARCHITECTURE.md: `deno task drawing`. */
import { importsOf, isOfProject, readTree, type Tree } from "./imports.ts";

const ROOMS = [
  "main.ts",
  "cli",
  "proxy",
  "answers",
  "sources",
  "observe",
  "kpng",
  "config",
  "workers",
  "backends",
  "core",
  "platform",
];
const DRAWING = /(<!-- drawn by `deno task drawing` -->\n)[\s\S]*?(<!-- end of the drawing -->)/;

type Graph = ReadonlyMap<string, ReadonlySet<string>>;

function topOf(path: string): string {
  return path.includes("/") ? path.slice(0, path.indexOf("/")) : path;
}

function graphOf(tree: Tree): Graph {
  const graph = new Map<string, Set<string>>();
  for (const [path, text] of tree) {
    const room = topOf(path);
    const seen = graph.get(room) ?? graph.set(room, new Set()).get(room)!;
    for (const imported of importsOf(path, text).filter(isOfProject)) {
      if (topOf(imported) !== room) seen.add(topOf(imported));
    }
  }
  return graph;
}

/** Whether `to` is reached from `from` by two imports or more. */
function isImplied(graph: Graph, from: string, to: string): boolean {
  const reaches = (room: string): boolean => [...graph.get(room) ?? []].some((next) => next === to || reaches(next));
  return [...graph.get(from)!].some((next) => next !== to && reaches(next));
}

/** A room with its folders, and the number of its lines. */
function label(tree: Tree, room: string): string {
  const paths = [...tree.keys()].filter((path) => topOf(path) === room);
  const folders = new Set(
    paths.map((path) => path.split("/")).filter((parts) => parts.length > 2).map(([, one]) => one),
  );
  const lines = paths.reduce((sum, path) => sum + tree.get(path)!.split("\n").length - 1, 0);
  const inside = folders.size > 0 ? `<br>${[...folders].sort().join(", ")}` : "";
  return `<b>${room}</b> ${(lines / 1000).toFixed(1)}k${inside}`;
}

/** The rooms as a Mermaid flowchart: an arrow for each import of one room by another that no longer path implies. */
export function drawingOf(tree: Tree): string {
  const graph = graphOf(tree);
  const name = (room: string) => room.replace(".ts", "");
  const nodes = [...graph.keys()].map((room) => `  ${name(room)}["${label(tree, room)}"]`);
  const arrows = [...graph].flatMap(([room, imported]) =>
    [...imported].filter((other) => !isImplied(graph, room, other)).sort()
      .map((other) => `  ${name(room)} --> ${name(other)}`)
  );
  return ["```mermaid", "flowchart TD", ...nodes, ...arrows, "```", ""].join("\n");
}

/** The page with the drawing of a tree in place of the one it holds. Throws where the page has no place for it. */
export function withDrawing(page: string, tree: Tree): string {
  if (!DRAWING.test(page)) throw new Error("ARCHITECTURE.md has no place for the drawing (restore its two comments)");
  return page.replace(DRAWING, (_, begin: string, end: string) => `${begin}${drawingOf(tree)}${end}`);
}

/** The product's sources. */
export function readProduct(): Tree {
  return readTree(ROOMS);
}

if (import.meta.main) {
  const page = new URL("../ARCHITECTURE.md", import.meta.url);
  Deno.writeTextFileSync(page, withDrawing(Deno.readTextFileSync(page), readProduct()));
}
