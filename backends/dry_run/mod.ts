/**
 * Runs a backend's sync without its effects: the unchanged backend, on a runner that collects changes instead of
 * starting tools.
 *
 * In: a full snapshot, and a runner for the tools that read. Out: the input of the tools (`sluice render`), the
 * differences between the kernel and the state (`sluice diff`). May run: tools that only read.
 */
import type { Family, FamilyDelta } from "../../core/model/mod.ts";
import { type Clock, silentLogger } from "../../platform/mod.ts";
import type { Backend } from "../contract/mod.ts";
import { findMode, type Mode, MODES } from "../mod.ts";
import type { ChainChange, KnownTool, PlaceChange, Runner, ToolCall, ToolReading, ToolResult } from "../tools/mod.ts";
import { diffArrays } from "diff";

/** The state that a dry run brings a family to. */
interface DryRun {
  readonly family: Family;
  /** A full snapshot; its settings name the mode. */
  readonly state: FamilyDelta;
  readonly clock: Clock;
  /** The known modes; `MODES` by default. */
  readonly modes?: readonly Mode[];
}

/** Syncs a full snapshot on a runner that carries out no change; returns the backend, which considers it applied. */
export async function dryRun(
  { family, state, clock, modes = MODES }: DryRun,
  { read, onChange }: DryRunTools,
): Promise<Backend> {
  if (state.settings === undefined) throw new Error("a dry run needs a full snapshot with its settings");
  const { mode, ipvs } = state.settings;
  const { description: { tools }, load } = findMode(mode, modes);
  let isSetUp = false;
  const runner: Runner = {
    isDry: true,
    async run(call) {
      const { tool, args, stdin, changes } = call;
      if (onlyReads(call, tools)) return read === undefined ? answerOfEmptyKernel(call, tools) : await read.run(call);
      // Setup only tries out the tools, and leaves nothing behind.
      if (changes && isSetUp) onChange({ tool, args, stdin, changes });
      return DONE;
    },
  };
  const backend = (await load()).create({ family, runner, clock, logger: silentLogger, ipvs });
  await backend.setup();
  isSetUp = true;
  await backend.sync(state);
  return backend;
}

/**
 * Compares the kernel with a state; changes nothing.
 * @param read runs the tools that read
 * @returns the differences; none if the kernel is in that state
 */
export async function compareWithKernel(run: DryRun, read: Runner): Promise<readonly Difference[]> {
  const changes: PlaceChange[] = [];
  await dryRun(run, {
    read,
    onChange(call) {
      for (const change of call.changes()) changes.push(change);
    },
  });
  return differencesOf(changes);
}

/** A run of a tool that would have changed the kernel and was skipped. */
export interface DryRunCall {
  readonly tool: string;
  readonly args: readonly string[];
  /** Its standard input; undefined for a tool that reads none. */
  readonly stdin: ToolCall["stdin"];
  /** The places that it would change. */
  readonly changes: NonNullable<ToolCall["changes"]>;
}

interface DryRunTools {
  /** Runs tools that only read; undefined for an empty kernel and the newest tools. */
  readonly read: Runner | undefined;
  /** Takes each run that would change the kernel; the tool then counts as successful. */
  readonly onChange: (call: DryRunCall) => void;
}

const DONE: ToolResult = { exitCode: 0, stdout: "", stderr: "" };

function onlyReads({ tool, args, changes }: ToolCall, tools: readonly KnownTool[]): boolean {
  if (changes) return false;
  if (tool.endsWith("-save")) return true;
  if (args.includes("--version")) return true;
  if (tool === "sysctl") return !args.some((arg) => arg === "-w" || arg.includes("="));
  return readingOf(tool, tools)?.words.some((word) => args.includes(word)) ?? false;
}

function answerOfEmptyKernel({ tool, args }: ToolCall, tools: readonly KnownTool[]): ToolResult {
  if (args.includes("--version")) return { ...DONE, stdout: `${tool} (nf_tables)\n` };
  const error = readingOf(tool, tools)?.errorIfEmpty;
  return error === undefined ? DONE : { ...DONE, exitCode: 1, stderr: `${error}\n` };
}

function readingOf(name: string, tools: readonly KnownTool[]): ToolReading | undefined {
  return tools.find(({ tool }) => tool === name)?.reading;
}

/** A line that only one side has: `-` for the kernel, `+` for the desired state. */
interface DifferentLine {
  readonly sign: "+" | "-";
  readonly text: string;
}

/** One place in the kernel that differs from the desired state. */
export interface Difference {
  /** `nat KUBE-SERVICES`, `map services`. */
  readonly place: string;
  /** Whether the place itself is missing or unwanted, or only its lines differ. */
  readonly what: "differs" | "missing" | "unwanted";
  readonly lines: readonly DifferentLine[];
}

/**
 * The differences between the kernel and the desired state, from the changes that were not carried out, by place: built-in
 * chains of iptables first, then other chains, then sets and the like.
 */
export function differencesOf(changes: readonly PlaceChange[]): readonly Difference[] {
  const chains = new Map<string, ChainChange>(),
    builtIn = new Map<string, Members>(),
    others: typeof builtIn = new Map();
  for (const change of changes) {
    const { kind, place } = change;
    if (kind === "chain") {
      // A later change, such as the removal of a chain that was emptied, replaces an earlier one.
      chains.set(place, { ...change, held: (chains.get(place) ?? change).held });
      continue;
    }
    const byPlace = kind === "members" ? others : builtIn;
    const known = byPlace.get(place) ?? { place, what: "differs", removed: [], added: [] };
    if (change.what !== undefined) known.what = change.what;
    for (const text of change.removed) known.removed.push(text);
    for (const text of change.added) known.added.push(text);
    byPlace.set(place, known);
  }
  return [
    [...builtIn.values()].map(membersDifference),
    [...chains.values()].map(chainDifference),
    [...others.values()].map(membersDifference),
  ].flatMap((ofKind) =>
    ofKind.filter(({ what, lines }) => what !== "differs" || lines.length > 0)
      .sort((a, b) => a.place < b.place ? -1 : 1)
  );
}

/** The members of a place that differ, gathered from several changes. */
interface Members {
  readonly place: string;
  what: Difference["what"];
  readonly removed: string[];
  readonly added: string[];
}

function chainDifference({ place, held, wanted }: ChainChange): Difference {
  const what = wanted === undefined ? "unwanted" : held === undefined ? "missing" : "differs";
  return { place, what, lines: differentLines(held ?? [], wanted ?? []) };
}

function membersDifference({ place, what, removed, added }: Members): Difference {
  return { place, what, lines: [...signed("-", removed), ...signed("+", added)] };
}

/** Chains with more differing lines than this are not aligned: alignment takes quadratic time. */
const ALIGN_LIMIT = 1_000;

/** The lines that only one side has, in order. */
function differentLines(held: readonly string[], wanted: readonly string[]): readonly DifferentLine[] {
  const parts = diffArrays([...held], [...wanted], { maxEditLength: ALIGN_LIMIT });
  if (parts === undefined) return [...signed("-", held), ...signed("+", wanted)];
  return parts.flatMap(({ removed, added, value }) => removed ? signed("-", value) : added ? signed("+", value) : []);
}

function signed(sign: DifferentLine["sign"], texts: readonly string[]): DifferentLine[] {
  return texts.map((text) => ({ sign, text }));
}
