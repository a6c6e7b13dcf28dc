import { alternative, type CommandSpec, type Flag, type GivenFlags, takesNoValue, usageLine } from "./command_spec.ts";
import { fieldAt, formatDuration } from "../platform/schema/mod.ts";
import { type Configuration, settingsOf } from "./configuration.ts";
import { FLAGS } from "./flag_table.ts";
import { FIELDS } from "./kube_proxy_configuration.ts";
import { nearest } from "../platform/mod.ts";
import { parseScalar } from "./scalar.ts";

/** The parsed arguments of a command. */
interface Arguments {
  readonly given: GivenFlags;
  readonly rest: readonly string[];
  /** Whether help was requested; the other arguments are then not parsed. */
  readonly help: boolean;
  readonly version: boolean;
  readonly errors: readonly string[];
}

/**
 * Parses what follows a command's name, in Go's flag syntax: `_` in a name stands for `-`, a boolean without a value is true
 * (and never takes the next argument), and `-v2`, `-v=2` and `-v 2` are the same. Unknown flags, invalid values, and missing
 * or surplus arguments are errors.
 */
export function readArguments(args: readonly string[], spec: CommandSpec): Arguments {
  const flags = [...spec.flags, ...FLAGS];
  const collected = new Map<Flag, string[]>();
  const errors: string[] = [];
  const rest: string[] = [];
  let version: string | undefined;
  for (let i = 0; i < args.length; i++) {
    const arg = args[i]!;
    if (arg === "--") {
      rest.push(...args.slice(i + 1));
      break;
    }
    const short = /^-([a-zA-Z])(?:=?(.+))?$/s.exec(arg);
    const long = /^--([^=]+)(?:=(.*))?$/s.exec(arg);
    const name = long?.[1]?.replaceAll("_", "-");
    const flag = flags.find((flag) => short ? flag.letter === short[1] : flag.name === name);
    const attached = (short ?? long)?.[2];
    if (flag !== undefined) {
      const value = attached ?? (takesNoValue(flag) ? "true" : args[++i]);
      if (value === undefined) errors.push(`--${flag.name} needs a value`);
      else collected.set(flag, [...collected.get(flag) ?? [], value]);
    } else if (arg === "-h" || arg === "--help") {
      return { given: new Map(), rest, help: true, version: false, errors };
    } else if (name === "version") version = attached ?? "true";
    else if (arg.startsWith("-")) errors.push(explainUnknown(arg, flags));
    else rest.push(arg);
  }
  const words = rest.map((word, i) => {
    const { aliases = {} } = spec.arguments?.[i] ?? {};
    return Object.hasOwn(aliases, word) ? aliases[word]! : word;
  });
  errors.push(...wrongWords(words, spec));
  const given = new Map<string, unknown>();
  for (const [flag, texts] of collected) {
    const read = parsedValue(flag, texts);
    if ("must" in read) errors.push(`--${flag.name} is ${JSON.stringify(texts.at(-1))}: must be ${read.must}`);
    else if (spec.flags.includes(flag) && isNone(flag.values, texts.at(-1)!)) {
      errors.push(`--${flag.name} is ${noneOf(flag.values!, texts.at(-1)!)}`);
    } else given.set(flag.name, read.value);
  }
  return { given, rest: words, help: false, version: version !== undefined && version !== "false", errors };
}

function explainUnknown(arg: string, flags: readonly Flag[]): string {
  const name = /^-+([^=]*)/.exec(arg)![1]!.replaceAll("_", "-");
  const names = flags.map((flag) => flag.name);
  const meant = names.includes(name) ? name : nearest(name, names);
  const hint = meant === undefined ? "see --help for all flags" : `did you mean --${meant}?`;
  return `unknown flag ${arg.replace(/=.*/s, "")}; ${hint}`;
}

function wrongWords(words: readonly string[], spec: CommandSpec): string[] {
  const { name: command, arguments: specs = [] } = spec;
  const most = specs.at(-1)?.repeats ? Infinity : specs.length;
  const tooMany = words.slice(most).map((arg) => `unexpected argument ${JSON.stringify(arg)}: ${usageLine(spec)}`);
  const missing = specs.slice(words.length).filter(({ required }) => required)
    .map(({ name, description }) => `${command} needs ${name}: ${description}`);
  const invalid = specs.flatMap(({ values }, i) =>
    words[i] === undefined || !isNone(values, words[i]) ? [] : [`${command} ${noneOf(values!, words[i])}`]
  );
  return [...tooMany, ...missing, ...invalid];
}

function isNone(words: readonly string[] | undefined, given: string): boolean {
  return words !== undefined && !words.includes(given);
}

function noneOf(words: readonly string[], given: string): string {
  return `${JSON.stringify(given)}: must be ${words.join(" or ")}${alternative(given, words)}`;
}

/** The value of a flag from all its occurrences: as in Go's pflag, lists and switches add up, otherwise the last one counts. */
function parsedValue(flag: Flag, given: readonly string[]): { readonly value: unknown } | { readonly must: string } {
  const field = flag.field;
  if (field.kind === "texts") {
    return { value: field.isWhole ? given : given.flatMap((list) => list === "" ? [] : list.split(",")) };
  }
  if (field.kind === "switches") return parseSwitches(given);
  for (const text of given) {
    const read = parseScalar(field, text);
    if ("must" in read) return read;
  }
  return parseScalar(field, given.at(-1)!);
}

function parseSwitches(given: readonly string[]): { readonly value: unknown } | { readonly must: string } {
  const switches: Record<string, boolean> = {};
  for (const pair of given.flatMap((list) => list.split(",")).filter((text) => text.trim() !== "")) {
    const [, name, state] = /^\s*([^=\s]+)\s*=\s*(\S+)\s*$/.exec(pair) ?? [];
    const read = parseScalar({ kind: "boolean", initial: false }, state ?? "");
    if (name === undefined || "must" in read) return { must: "name=true or name=false, separated by commas" };
    switches[name] = read.value as boolean;
  }
  return { value: switches };
}

/**
 * The value of every flag of `run`, in alphabetical order, as Go's pflag formats it; for `/flagz`. As in kube-proxy, a flag
 * that sets a field shows the value in effect; with `--config`, all flags show their given or default values.
 */
export function flagTexts(given: GivenFlags, configuration: Configuration): Readonly<Record<string, string>> {
  const settings = settingsOf(configuration);
  const valueOf = ({ name, field, setting }: Flag): unknown =>
    setting === undefined || given.has("config")
      ? given.get(name) ?? field.initial
      : configuration.forms[setting(configuration.mode)] ??
        fieldAt(FIELDS, setting(configuration.mode)).get(settings);
  const texts = FLAGS.map((flag) => [flag.name, textOf(flag, valueOf(flag))] as const);
  const others = ["help", "version"].map((name) => [name, "false"] as const);
  return Object.fromEntries([...texts, ...others].toSorted(([a], [b]) => a < b ? -1 : 1));
}

function textOf({ field }: Flag, value: unknown): string {
  switch (field.kind) {
    case "duration":
      return formatDuration(value as number);
    case "texts":
      return `[${(value as readonly string[]).join(",")}]`;
    case "switches":
      return Object.entries(value as Readonly<Record<string, boolean>>).map(([name, state]) => `${name}=${state}`)
        .sort().join(",");
    default:
      return String(value);
  }
}

/** The command line of the installed service. */
export interface InstalledService {
  readonly configuration: string;
  /** Its other flags, in the form `--name=value`. */
  readonly words: readonly string[];
}

/** Flags of `run` that agree with any configuration. */
const AGREEING = ["v", "logging-format", "strict-config", "cleanup"];

/** The part of the installed service that applies; undefined if none does, or a flag selects another. */
export function partOfInstalled(
  args: readonly string[],
  commands: readonly CommandSpec[],
): "configuration" | "socket" | undefined {
  const spec = commands.find(({ name }) => name === args[0]);
  if (spec?.installed === undefined) return undefined;
  const { given, help } = readArguments(args.slice(1), spec);
  const { part, unless = [] } = spec.installed;
  const isOfRun = (name: string) =>
    FLAGS.some((flag) => flag.name === name) && !spec.flags.some((flag) => flag.name === name);
  const differs = [...given.keys()].some((name) => unless.includes(name) || isOfRun(name) && !AGREEING.includes(name));
  return help || differs ? undefined : part;
}

/** Returns the command line with a part of the installed service's flags added. */
export function withInstalled(
  [command, ...rest]: readonly string[],
  part: "configuration" | "socket",
  { configuration, words }: InstalledService,
): readonly string[] {
  const added = part === "configuration"
    ? [`--config=${configuration}`, ...words]
    : words.filter((word) => word.startsWith("--control-socket="));
  return [command!, ...added, ...rest];
}
