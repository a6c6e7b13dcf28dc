/** The service's file for each service manager: a systemd unit or an OpenRC script. */
import { shippedText } from "../../platform/mod.ts";

/** A program that starts services at boot. */
export type ServiceManager = "systemd" | "openrc";

/** The service's file, to be installed. */
export interface InstalledService {
  readonly path: string;
  readonly mode: number;
  readonly text: string;
}

/** Installation path of the systemd unit. */
export const UNIT = "/etc/systemd/system/sluice.service";

/** Installation path of the OpenRC script. */
export const SCRIPT = "/etc/init.d/sluice";

/** The log of the service under OpenRC; systemd has its journal. */
export const OPENRC_LOG = "/var/log/sluice.log";

const SYSTEMD_PATHS = ["/run/systemd/system", "/lib/systemd/systemd", "/usr/lib/systemd/systemd"];

/** The service manager below a root folder, running or not; undefined if there is none. */
export function serviceManagerIn(root: string): ServiceManager | undefined {
  if (SYSTEMD_PATHS.some((path) => exists(root + path))) return "systemd";
  return exists(`${root}/sbin/openrc-run`) ? "openrc" : undefined;
}

/** Whether systemd runs this system (sd_booted(3)), which it does not in a chroot or a container. */
export function isSystemdRunning(): boolean {
  return exists("/run/systemd/system");
}

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
}

/** The service's file for a manager, with words added to the proxy's command line. */
export function serviceFile(manager: ServiceManager, words: readonly string[]): InstalledService {
  return manager === "systemd"
    ? { path: UNIT, mode: 0o644, text: unitWith(shippedText("sluice.service"), words) }
    : { path: SCRIPT, mode: 0o755, text: scriptWith(shippedText("sluice.openrc"), words) };
}

/** The words of the command line in the installed unit or script, without `--config`; undefined if there is neither. */
export function installedWords(root: string): readonly string[] | undefined {
  const unit = textOf(root + UNIT);
  if (unit !== undefined) return wordsOfUnit(unit);
  const script = textOf(root + SCRIPT);
  return script === undefined ? undefined : wordsOfScript(script);
}

/** The text of a file; undefined if it does not exist. */
export function textOf(path: string): string | undefined {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** Appends words to the proxy's command line in a systemd unit. */
export function unitWith(unit: string, words: readonly string[]): string {
  return unit.replace(/^ExecStart=.*$/m, (line) => [line, ...words.map(unitWord)].join(" "));
}

/** Quotes a word for ExecStart, without expansion of specifiers and variables (systemd.service(5), systemd.unit(5)). */
function unitWord(word: string): string {
  const text = word.replaceAll("%", "%%").replaceAll("$", "$$$$");
  return /^[\w@%+=:,./$-]+$/.test(text) ? text : `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

/** The flag in the shipped unit and script, besides --config; another value after it wins. */
const SHIPPED_WORD = "--state-directory=/var/lib/sluice";

/** The words that `unitWith` added, or an administrator. */
export function wordsOfUnit(unit: string): readonly string[] {
  const line = /^ExecStart=(.*)$/m.exec(unit.replace(/\\\n/g, " "))?.[1] ?? "";
  const words = splitWords(line).map((word) => word.replaceAll("%%", "%").replaceAll("$$", "$"));
  return withoutShipped(words.slice(1));
}

/** Appends words to the proxy's command line in an OpenRC script. */
export function scriptWith(script: string, words: readonly string[]): string {
  // The shell expands the variable's double quotes, and OpenRC the words in it once more.
  const quoted = words.map((word) => ` '${word.replaceAll("'", "'\\''")}'`.replace(/[\\"$`]/g, "\\$&"));
  return script.replace(/^command_args="(.*)"$/m, (_, args) => `command_args="${args}${quoted.join("")}"`);
}

/** The words that `scriptWith` added, or an administrator. */
export function wordsOfScript(script: string): readonly string[] {
  const args = /^command_args="(.*)"$/m.exec(script)?.[1] ?? "";
  return withoutShipped(splitWords(args.replace(/\\(.)/g, "$1")));
}

/** Flags in the form `--name=value`, without those of the shipped file. */
function withoutShipped(words: readonly string[]): readonly string[] {
  const flags: string[] = [];
  for (const word of words) {
    if (word.startsWith("-")) flags.push(word);
    // A proxy has no arguments, so this is the value of the flag before it.
    else if (flags.length > 0) flags.push(`${flags.pop()}=${word}`);
  }
  return flags.filter((flag) => !flag.startsWith("--config=") && flag !== SHIPPED_WORD);
}

/** Splits a command line at spaces outside quotes, with quotes and backslashes as in a shell. */
function splitWords(line: string): readonly string[] {
  const words = line.match(/(?:"(?:[^"\\]|\\.)*"|'[^']*'|\\.|[^\s"'\\])+/g) ?? [];
  return words.map((word) =>
    word.replace(
      /"((?:[^"\\]|\\.)*)"|'([^']*)'|\\(.)/g,
      (_, double, single, escaped) => double?.replace(/\\(.)/g, "$1") ?? single ?? escaped,
    )
  );
}
