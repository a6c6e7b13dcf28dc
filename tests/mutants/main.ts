/**
 * Finds out which mutations of rooms the unit tests, properties and types notice:
 *
 *     deno task test:mutants ROOM… [--only PART] [--sample N] [--seed S] [--own] [--goal PERCENT]
 *
 * A room is a folder of the product; `PART` is the beginning of paths in it. Mutates every place of each room, or `N` of its
 * lines chosen by the seed. With `--own`, the tests of other rooms are not run. Prints the mutations that nothing noticed, and
 * the share of the others. Exits with status 1 if that is below the goal in a room.
 *
 * A mutation is tried in the order in which tests are likely to notice it: of the files of the room and of properties
 * that run the line, those that run least else, and the rest of them; then the types, and the other rooms.
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

const { values: options, positionals: rooms } = parseArgs({
  allowPositionals: true,
  options: {
    only: { type: "string", default: "" },
    sample: { type: "string" },
    seed: { type: "string", default: "1" },
    own: { type: "boolean", default: false },
    goal: { type: "string", default: "0" },
  },
});
if (rooms.length === 0) {
  console.error("usage: deno task test:mutants ROOM… [--only PART] [--sample N] [--seed S] [--own] [--goal PERCENT]");
  Deno.exit(2);
}

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) Deno.addSignalListener(signal, () => stop.abort());

const folders = [...Deno.readDirSync(`${root}tests/unit`)].flatMap(({ name, isDirectory }) =>
  isDirectory && !NOT_RUN.has(name) ? [`tests/unit/${name}`] : []
);
const measured = new Map<string, TestFile | undefined>();
const copies = Array.from({ length: navigator.hardwareConcurrency }, (_, number) => copyProject(number, stop.signal));
const scores: number[] = [];
try {
  for (const room of rooms) if (!stop.signal.aborted) scores.push(await scoreOf(room));
} finally {
  deleteCopies();
}
Deno.exit(stop.signal.aborted ? 130 : scores.some((score) => score < Number(options.goal)) ? 1 : 0);

/** Tries the mutations of a room; returns the share of those that a test noticed, in percent. */
async function scoreOf(room: string): Promise<number> {
  const all = (await findMutations(room)).filter(({ path }) => path.startsWith(`${room}/${options.only}`));
  const mutations = sampleOf(all, Number(options.sample ?? Infinity), Number(options.seed));
  console.log(`${mutations.length} of ${all.length} mutations of ${room}/${options.only}, seed ${options.seed}`);
  const survivors: Mutation[] = [];
  let killed = 0;
  const note = (mutation: Mutation, isKilled: boolean) => {
    if (stop.signal.aborted) return;
    if (isKilled) killed++;
    else survivors.push(mutation);
    console.log(`${killed + survivors.length} ${isKilled ? "killed  " : "survived"} ${placeOf(mutation)}`);
  };

  if (!await copies[0]!.check(room)) {
    throw new Error(`the types of ${room} are wrong without a mutation: run deno task check`);
  }
  const own = await measureAll([`tests/unit/${room}`, "tests/property"].flatMap(testFiles));
  const undecided: Mutation[] = [];
  await inCopies(mutations, async (copy, mutation) => {
    const nearby = runningLine(own, mutation);
    const groups = [nearby.slice(0, NEAREST), nearby.slice(NEAREST)];
    const isKilled = await isNoticed(copy, mutation, groups, () => copy.check(mutation.path));
    if (isKilled || options.own) note(mutation, isKilled);
    else undecided.push(mutation);
  });
  if (undecided.length > 0) console.log(`${undecided.length} left for the tests of other rooms`);
  const others = undecided.length === 0 ? [] : await measureAll(folders.flatMap(testFiles));
  await inCopies(undecided, async (copy, mutation) => {
    const far = runningLine(others, mutation).filter((file) => !own.includes(file));
    const byFolder = folders.map((folder) => far.filter(({ path }) => path.startsWith(`${folder}/`)));
    note(mutation, await isNoticed(copy, mutation, byFolder));
  });

  for (const mutation of survivors.sort((a, b) => a.path < b.path ? -1 : a.path > b.path ? 1 : a.start - b.start)) {
    console.log(`\n${placeOf(mutation)}\n${differenceOf(mutation)}`);
  }
  const score = 100 * killed / Math.max(1, killed + survivors.length);
  if (stop.signal.aborted) console.log("\ninterrupted");
  console.log(`\n${room}: ${killed} killed, ${survivors.length} survived, score ${score.toFixed(1)} %`);
  return score;
}

/** Measures files of tests, and names those that fail without a mutation. */
async function measureAll(paths: readonly string[]): Promise<readonly TestFile[]> {
  await inCopies(paths.filter((path) => !measured.has(path)), async (copy, path) => {
    const file = await measure(copy, path);
    measured.set(path, file);
    if (file === undefined && !stop.signal.aborted) console.log(`left out, since it fails: ${path}`);
  });
  return paths.flatMap((path) => measured.get(path) ?? []).sort((a, b) => a.breadth - b.breadth);
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

/** Whether a test of these groups, of which each runs in a process, or then `check` fails with the mutation. */
async function isNoticed(
  copy: Copy,
  mutation: Mutation,
  groups: readonly (readonly TestFile[])[],
  check = () => Promise.resolve(true),
): Promise<boolean> {
  const module = copy.root + mutation.path, text = Deno.readTextFileSync(module);
  Deno.writeTextFileSync(module, mutate(text, mutation));
  try {
    for (const group of groups.filter(({ length }) => length > 0)) {
      const durationMs = group.reduce((sum, { durationMs }) => sum + durationMs, 0);
      if (!await copy.test(group.map(({ path }) => path), PATIENCE_MS + 3 * durationMs)) return true;
    }
    return !await check();
  } finally {
    Deno.writeTextFileSync(module, text);
  }
}

function placeOf({ path, line, column }: Mutation): string {
  return `${path}:${line}:${column}`;
}
