import { suggestion } from "../platform/mod.ts";
import {
  type DeepReadonly,
  type ScalarField,
  type SwitchesField,
  text,
  type TextsField,
  type ValueOf,
} from "../platform/schema/mod.ts";
import type { SettingPath } from "./kube_proxy_configuration.ts";

type FlagField = ScalarField | TextsField | SwitchesField;

/** A command-line flag, with a value of this type. */
export interface Flag<F extends FlagField = FlagField> {
  readonly name: string;
  /** Its one-letter form: `v` for `-v 2`. */
  readonly letter?: string;
  readonly field: F;
  readonly description: string;
  /** The setting that it sets, which can depend on the proxy mode. */
  readonly setting?: (mode: string) => SettingPath;
  /** Whether it applies together with `--config`, where kube-proxy ignores most flags. */
  readonly besideConfig: boolean;
  /** Whether it has an effect; others of kube-proxy's flags are accepted with a warning. */
  readonly effective: boolean;
  /** The allowed values, if the flag is an enumeration. */
  readonly values?: readonly string[];
  /** Values that a shell completes; others are allowed too. */
  readonly suggestions?: readonly string[];
}

/** A titled group of flags. */
export interface FlagGroup {
  readonly title: string;
  readonly flags: readonly Flag[];
}

/** A flag without a setting in the configuration file. */
export function option<F extends FlagField>(name: string, field: F, description: string, letter?: string): Flag<F> {
  return { name, letter, field, description, besideConfig: true, effective: true };
}

/** An enumeration flag without a setting in the configuration file. The first value is the default. */
export function choice(
  name: string,
  values: readonly string[],
  description: string,
  letter?: string,
): Flag<ReturnType<typeof text>> {
  return { ...option(name, text(values[0]), description, letter), values };
}

/** Whether a flag may be given without a value, which then means true. */
export function takesNoValue(flag: Flag): boolean {
  return flag.field.kind === "boolean";
}

/** A positional argument of a command. */
interface ArgumentSpec {
  /** Its name in the help: `ADDRESS:PORT`. */
  readonly name: string;
  readonly description: string;
  readonly required?: true;
  /** The allowed values, if the argument is an enumeration. */
  readonly values?: readonly string[];
  /** Other spellings of the allowed values: `svc` for `services`. */
  readonly aliases?: Readonly<Record<string, string>>;
  /** Whether it takes any number of words; only the last argument may. */
  readonly repeats?: true;
  /** The names that a shell completes from the running proxy. */
  readonly completes?: "service";
}

/** The interface of a command, from which its help, completions and man page are generated. */
export interface CommandSpec {
  readonly name: string;
  /** One line of the program's help; starts with a verb, ends with a full stop. */
  readonly summary: string;
  readonly arguments?: readonly ArgumentSpec[];
  /**
   * The command's own flags, in addition to the flags of `run`. A flag with the name of a flag of `run` replaces it: the
   * configuration does not depend on it.
   */
  readonly flags: readonly Flag[];
  /** Whether it reads neither the cluster nor a server, so that its help leaves out the flags of the source. */
  readonly withoutSource?: true;
  /**
   * The part of the installed service that applies if no flag of `run` is given: its configuration and flags, or only the
   * path of its control socket. It does not apply with one of the flags in `unless`.
   */
  readonly installed?: { readonly part: "configuration" | "socket"; readonly unless?: readonly string[] };
  /** The meanings of its exit statuses that differ from `EXIT_STATUSES`. */
  readonly exitStatuses?: ExitStatuses;
  /** Short explanations by complete command line. */
  readonly examples: Readonly<Record<string, string>>;
}

/** Meanings of exit statuses. */
export type ExitStatuses = Readonly<Record<number, string>>;

const EXIT_STATUSES: ExitStatuses = { 0: "done", 1: "failed", 2: "the command line or the configuration is invalid" };

/** The exit status of commands whose question the running proxy does not answer, as in the LSB's `status` action. */
export const NO_ANSWER = 3;

/** Returns the meanings of all exit statuses of a command. */
export function exitStatusesOf({ exitStatuses }: Pick<CommandSpec, "exitStatuses">): ExitStatuses {
  return { ...EXIT_STATUSES, ...exitStatuses };
}

/** The default command: the proxy itself. */
export const RUN = "run";

/** Where to read the log, for those who look for a command. */
const LOG =
  "; the service manager keeps the log: journalctl -u sluice (systemd), tail /var/log/sluice.log (OpenRC), or " +
  "for a pod kubectl logs -n kube-system -l app.kubernetes.io/name=sluice --prefix";

/** How to start and stop the service, for those who look for a command. */
const SERVICE = "; the service manager does that: systemctl (systemd) or rc-service (OpenRC)";

/** The replacement of a command that people expect but that does not exist, as the end of a message. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  log: LOG,
  logs: LOG,
  cleanup: "; sluice --cleanup removes the rules of Sluice and kube-proxy",
  wait: "; sluice status --wait 60s waits until everything is in effect",
  trace: "; sluice explain --trace DESTINATION follows the next connection",
  describe: "; sluice explain DESTINATION says where a connection goes, sluice get endpoints why one is in use or not",
  list: "; sluice get services lists services, sluice get endpoints their endpoints",
  start: SERVICE,
  stop: SERVICE,
  restart: SERVICE,
  upgrade: "; the newer executable upgrades the installed one: ./sluice install --now",
  remove: "; sluice uninstall --now removes the service and its files, with --cleanup the rules too",
  config: "; sluice --write-config-to - prints the configuration in effect with these flags",
};

/** The end of a message about an unknown word: what to use instead, or the nearest of the known words, or nothing. */
export function alternative(word: string, known: readonly string[]): string {
  return Object.hasOwn(ELSEWHERE, word) ? ELSEWHERE[word]! : suggestion(word, known);
}

/** The usage line of a command: `sluice explain ADDRESS:PORT [flags]`. */
export function usageLine(spec: CommandSpec): string {
  const name = spec.name === RUN ? `[${RUN}]` : spec.name;
  const words = (spec.arguments ?? []).map(({ name, required }) => required ? name : `[${name}]`);
  return ["sluice", name, ...words, "[flags]"].join(" ");
}

const PLACEHOLDERS: Readonly<Record<Flag["field"]["kind"], string>> = {
  text: "text",
  boolean: "true|false",
  integer: "n",
  number: "n",
  duration: "duration",
  quantity: "quantity",
  texts: "a,b,…",
  switches: "name=true,…",
};

/** The longest list of allowed values that a placeholder shows, in characters. */
const MOST_WORDS = 24;

/** The placeholder for a flag's value in help texts: `<a|b>`, `<duration>`, or `[true|false]` if the value is optional. */
export function placeholderOf(flag: Flag): string {
  if (takesNoValue(flag)) return "[true|false]";
  const words = flag.values?.join("|") ?? "";
  const kind = flag.field.kind === "texts" && flag.field.isWhole ? "text" : flag.field.kind;
  return `<${words !== "" && words.length <= MOST_WORDS ? words : PLACEHOLDERS[kind]}>`;
}

/** The parsed values of the given flags, by name. */
export type GivenFlags = ReadonlyMap<string, unknown>;

/** The value of a flag; undefined if it is not given. */
export function flagValue<F extends FlagField>(
  given: GivenFlags,
  { name }: Flag<F>,
): DeepReadonly<ValueOf<F>> | undefined {
  return given.get(name) as DeepReadonly<ValueOf<F>> | undefined;
}
