/** The mutations of modules, and a sample of them. */
import { COPIES, root } from "./copy.ts";
import type { Change } from "./plugin.ts";

/** A change of one place in a module. */
export interface Mutation extends Change {
  /** The path of the module, relative to the project's root. */
  readonly path: string;
  /** The line and the column of the change, from 1. */
  readonly line: number;
  readonly column: number;
  /** The text that it replaces. */
  readonly before: string;
}

/** `deno lint` takes a plugin that is a default export. */
const PLUGIN = 'export { plugin as "default" } from "../../tests/mutants/plugin.ts";\n';
const LINT = { lint: { plugins: ["./plugin.ts"], rules: { tags: [], include: ["mutants/mutations"] } } };

/** Returns all mutations of the modules at or below `path`, relative to the project's root, in their order. */
export async function findMutations(path: string): Promise<readonly Mutation[]> {
  Deno.mkdirSync(COPIES, { recursive: true });
  Deno.writeTextFileSync(`${COPIES}plugin.ts`, PLUGIN);
  Deno.writeTextFileSync(`${COPIES}lint.json`, JSON.stringify(LINT));
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["lint", "--quiet", "--json", "--config", `${COPIES}lint.json`, path],
    cwd: root,
    stderr: "inherit",
  }).output();
  const { diagnostics, errors } = JSON.parse(new TextDecoder().decode(stdout));
  if (errors.length > 0) throw new Error(`cannot parse ${path}: ${JSON.stringify(errors)}`);
  const texts = new Map<string, string>(), found = new Map<string, Mutation>();
  for (const { filename, message } of diagnostics as { readonly filename: string; readonly message: string }[]) {
    const module = new URL(filename).pathname.slice(root.length);
    if (!texts.has(module)) texts.set(module, Deno.readTextFileSync(root + module));
    const change: Change = JSON.parse(message), { start, end } = change, text = texts.get(module)!;
    const lines = text.slice(0, start).split("\n");
    const place = {
      path: module,
      line: lines.length,
      column: lines.at(-1)!.length + 1,
      before: text.slice(start, end),
    };
    found.set(`${module} ${message}`, { ...place, ...change });
  }
  return [...found.values()];
}

/** Returns `count` mutations, each of another line, chosen by the seed. */
export function sampleOf(mutations: readonly Mutation[], count: number, seed: number): readonly Mutation[] {
  const random = randomNumbers(seed), byLine = new Map<string, Mutation>();
  const shuffled = mutations.map((mutation) => ({ mutation, order: random() })).sort((a, b) => a.order - b.order);
  for (const { mutation } of shuffled) {
    const line = `${mutation.path}:${mutation.line}`;
    if (byLine.size < count && !byLine.has(line)) byLine.set(line, mutation);
  }
  return [...byLine.values()];
}

/** Returns the text of a module with a mutation. */
export function mutate(text: string, { start, end, text: replacement }: Change): string {
  return text.slice(0, start) + replacement + text.slice(end);
}

/** Returns the lines of a mutation without and with it, as a difference. */
export function differenceOf(mutation: Mutation): string {
  const text = Deno.readTextFileSync(root + mutation.path);
  const first = text.lastIndexOf("\n", mutation.start - 1) + 1, last = text.indexOf("\n", mutation.end);
  const before = text.slice(first, last);
  const after = mutate(before, { ...mutation, start: mutation.start - first, end: mutation.end - first });
  return [["-", before], ["+", after]].map(([sign, lines]) => `  ${sign} ${lines!.trim().replace(/\s*\n\s*/g, " ")}`)
    .join("\n");
}

/** Numbers from 0 to below 1 that depend on the seed (the generator is mulberry32). */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6D2B79F5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
