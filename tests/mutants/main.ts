/**
 * Finds out which mutations of a room the unit tests and properties notice:
 *
 *     deno task test:mutants ROOM [--only PART] [--sample N] [--seed S] [--own] [--goal PERCENT]
 *
 * A room is a folder of the product; `PART` is the beginning of paths in it. Mutates every place, or `N` lines chosen by the
 * seed, with all tests or the room's own and the properties. Prints the mutations that no test noticed, and the share of those that one did.
 * Exits with status 1 if that is below the goal.
 *
 * A mutation is tried in the order in which tests are likely to notice it: of the files of the room and of properties
 * that run the line, those that run least else, the rest of them, then the other rooms.
 */
import { parseArgs } from "node:util";
import { type Copy, copyProject, deleteCopies, root } from "./copy.ts";
import { measure, type TestFile, testFiles } from "./coverage.ts";
import { differenceOf, findMutations, mutate, type Mutation, sampleOf } from "./mutations.ts";

/** The files of tests that are tried first, in a process of their own. */
const NEAREST = 2;
/** The timeout of tests, in addition to three times their duration without a mutation. */
const PATIENCE_MS = 5_000;
/** Tests of these folders read the sources, or run programs that do. */
const NOT_RUN = new Set(["build", "deploy"]);

const { values, positionals: [room] } = parseArgs({
  allowPositionals: true,
  options: {
    only: { type: "string", default: "" },
    sample: { type: "string" },
    seed: { type: "string", default: "1" },
    own: { type: "boolean", default: false },
    goal: { type: "string", default: "0" },
  },
});
if (room === undefined) {
  console.error("usage: deno task test:mutants ROOM [--only PART] [--sample N] [--seed S] [--own] [--goal PERCENT]");
  Deno.exit(2);
}

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, () => stop.abort());

const all = (await findMutations(room)).filter(({ path }) => path.startsWith(`${room}/${values.only}`));
const mutations = sampleOf(all, Number(values.sample ?? Infinity), Number(values.seed));
console.log(`${mutations.length} of ${all.length} mutations of ${room}/${values.only}, seed ${values.seed}`);
const copies = Array.from({ length: navigator.hardwareConcurrency }, (_, number) => copyProject(number, stop.signal));
const survivors: Mutation[] = [];
let killed = 0;
try {
  const own = await measureAll([...testFiles(`tests/unit/${room}`), ...testFiles("tests/property")]);
  const undecided: Mutation[] = [];
  await inCopies(mutations, async (copy, mutation) => {
    const nearby = runningLine(own, mutation);
    const isKilled = await isNoticed(copy, mutation, [nearby.slice(0, NEAREST), nearby.slice(NEAREST)]);
    if (isKilled || values.own) note(mutation, isKilled);
    else undecided.push(mutation);
  });
  const folders = [...Deno.readDirSync(`${root}tests/unit`)].filter(({ name, isDirectory }) =>
    isDirectory && name !== room && !NOT_RUN.has(name)
  ).map(({ name }) => `tests/unit/${name}`);
  if (undecided.length > 0) console.log(`${undecided.length} left for the tests of other rooms`);
  const others = undecided.length === 0 ? [] : await measureAll(folders.flatMap(testFiles));
  await inCopies(undecided, async (copy, mutation) => {
    const far = runningLine(others, mutation);
    const byFolder = folders.map((folder) => far.filter(({ path }) => path.startsWith(`${folder}/`)));
    note(mutation, await isNoticed(copy, mutation, byFolder));
  });
} finally {
  deleteCopies();
}

for (const mutation of survivors.sort((a, b) => a.path < b.path ? -1 : a.path > b.path ? 1 : a.start - b.start)) {
  console.log(`\n${placeOf(mutation)}\n${differenceOf(mutation)}`);
}
const score = 100 * killed / Math.max(1, killed + survivors.length);
console.log(`\n${killed} killed, ${survivors.length} survived, score ${score.toFixed(1)} %`);
Deno.exit(stop.signal.aborted ? 130 : score < Number(values.goal) ? 1 : 0);

/** Measures files of tests, and names those that fail without a mutation. */
async function measureAll(paths: readonly string[]): Promise<readonly TestFile[]> {
  const measured: TestFile[] = [];
  await inCopies(paths, async (copy, path) => {
    const file = await measure(copy, path);
    if (file !== undefined) measured.push(file);
    else if (!stop.signal.aborted) console.log(`left out, since it fails: ${path}`);
  });
  return measured.sort((a, b) => a.breadth - b.breadth);
}

/** Calls `work` for each item, for as many at once as there are copies. */
async function inCopies<T>(items: readonly T[], work: (copy: Copy, item: T) => Promise<void>): Promise<void> {
  const waiting = items.values();
  await Promise.all(copies.map(async (copy) => {
    for (const item of waiting) {
      if (stop.signal.aborted) return;
      await work(copy, item);
    }
  }));
}

function runningLine(files: readonly TestFile[], { path, line }: Mutation): readonly TestFile[] {
  return files.filter(({ lines }) => lines.get(path)?.has(line));
}

/** Whether a test of these groups fails with the mutation; each group runs in a process. */
async function isNoticed(copy: Copy, mutation: Mutation, groups: readonly (readonly TestFile[])[]): Promise<boolean> {
  const module = copy.root + mutation.path, text = Deno.readTextFileSync(module);
  Deno.writeTextFileSync(module, mutate(text, mutation));
  try {
    for (const group of groups.filter(({ length }) => length > 0)) {
      const durationMs = group.reduce((sum, { durationMs }) => sum + durationMs, 0);
      if (!await copy.test(group.map(({ path }) => path), PATIENCE_MS + 3 * durationMs)) return true;
    }
    return false;
  } finally {
    Deno.writeTextFileSync(module, text);
  }
}

function note(mutation: Mutation, isKilled: boolean): void {
  if (stop.signal.aborted) return;
  if (isKilled) killed++;
  else survivors.push(mutation);
  console.log(`${killed + survivors.length} ${isKilled ? "killed  " : "survived"} ${placeOf(mutation)}`);
}

function placeOf({ path, line, column }: Mutation): string {
  return `${path}:${line}:${column}`;
}
