/** Files of an installation; the service's file is a systemd unit or an OpenRC script. */
import { dirname, shippedText } from "../../platform/mod.ts";

/**
 * When to replace an existing file that differs from the one to install: `always`; `backup`, after copying it; `unedited`,
 * unless it was edited since its installation; `never`.
 */
export type Replacement = "always" | "backup" | "unedited" | "never";

/** A file to install. */
export interface InstalledFile {
  /** Absolute path, without the root. */
  readonly path: string;
  readonly mode: number;
  readonly content: { readonly text: string } | { readonly copyOf: string };
  readonly replacement: Replacement;
}

/** Installation path of the executable. */
export const PROGRAM = "/usr/local/bin/sluice";

/** Installation path of the configuration. */
export const CONFIGURATION = "/etc/sluice/config.yaml";

/** The text file to install. */
export function textFile(
  path: string,
  text: string,
  replacement: Replacement = "unedited",
  mode = 0o644,
): InstalledFile {
  return { path, mode, content: { text }, replacement };
}

/** Returns the SHA-256 of a file in hexadecimal; undefined if the file does not exist. */
export async function hashOf(path: string): Promise<string | undefined> {
  try {
    return await hashOfBytes(await Deno.readFile(path));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return undefined;
    throw error;
  }
}

/** Returns the SHA-256 of the content to install, in hexadecimal. */
export async function hashOfContent({ content }: InstalledFile): Promise<string> {
  if ("text" in content) return await hashOfBytes(new TextEncoder().encode(content.text));
  const hash = await hashOf(content.copyOf);
  if (hash === undefined) throw new Error(`cannot read the executable ${content.copyOf}: it was removed`);
  return hash;
}

async function hashOfBytes(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
}

/** Writes a file atomically, so that a running program is not modified. Rejects with an Error that names the file. */
export async function putFile(root: string, { path, mode, content }: InstalledFile): Promise<void> {
  const target = root + path;
  const temporary = `${target}.new`;
  try {
    await Deno.mkdir(dirname(target), { recursive: true });
    if ("text" in content) await Deno.writeTextFile(temporary, content.text);
    else await Deno.copyFile(content.copyOf, temporary);
    await Deno.chmod(temporary, mode);
    await Deno.rename(temporary, target);
  } catch (error) {
    await Deno.remove(temporary).catch(() => {});
    throw new Error(`cannot write ${target}`, { cause: error });
  }
}

/** The missing folders above a path below the root, the outermost first. */
export function missingFolders(root: string, path: string): readonly string[] {
  const missing: string[] = [];
  for (let folder = dirname(path); folder !== "/" && !exists(root + folder); folder = dirname(folder)) {
    missing.unshift(folder);
  }
  return missing;
}

/** Folders used only by an installation. */
export const FOLDERS = ["/etc/sluice", "/var/lib/sluice"];

/** Removes a file, and its folder if only an installation uses that and it is now empty. */
export async function removeFile(root: string, path: string): Promise<void> {
  await Deno.remove(root + path);
  if (FOLDERS.includes(dirname(path))) await removeFolder(root + dirname(path));
}

/** Removes a folder if it is empty. */
export async function removeFolder(path: string): Promise<void> {
  try {
    await Deno.remove(path);
  } catch {
    // Not empty, or gone.
  }
}

/** A program that starts services at boot. */
export type ServiceManager = "systemd" | "openrc";

/** Installation path of the systemd unit. */
export const UNIT = "/etc/systemd/system/sluice.service";

/** Path of the systemd unit of a package, which `UNIT` would hide. */
export const PACKAGED_UNIT = "/usr/lib/systemd/system/sluice.service";

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

/** Whether there is a file or folder. */
export function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
}

/** The service's file for a manager, with words added to the proxy's command line. */
export function serviceFile(
  manager: ServiceManager,
  words: readonly string[],
  replacement: Replacement = "unedited",
): InstalledFile {
  return manager === "systemd"
    ? textFile(UNIT, unitWith(shippedText("sluice.service"), words), replacement)
    : textFile(SCRIPT, scriptWith(shippedText("sluice.openrc"), words), replacement, 0o755);
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
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return undefined;
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

/** The flags in the shipped unit and script, in addition to --config; a later value wins. */
const SHIPPED_WORDS = ["--state-directory=/var/lib/sluice", "--logging-format=text"];

/** The words that `unitWith` or an administrator added. */
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

/** The words that `scriptWith` or an administrator added. */
export function wordsOfScript(script: string): readonly string[] {
  const args = /^command_args="(.*)"$/m.exec(script)?.[1] ?? "";
  return withoutShipped(splitWords(args.replace(/\\(.)/g, "$1")));
}

/** Flags in the form `--name=value`, without the flags in the shipped file. */
function withoutShipped(words: readonly string[]): readonly string[] {
  const flags: string[] = [];
  for (const word of words) {
    if (word.startsWith("-")) flags.push(word);
    // A proxy has no arguments, so this is the value of the flag before it.
    else if (flags.length > 0) flags.push(`${flags.pop()}=${word}`);
  }
  return flags.filter((flag) => !flag.startsWith("--config=") && !SHIPPED_WORDS.includes(flag));
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
