/** A file that an installation consists of. */
export interface InstalledFile {
  /** From `/` on, without the root that it is put under. */
  readonly path: string;
  readonly mode: number;
  readonly content: { readonly text: string } | { readonly copyOf: string };
  /** Whether it is for the administrator to change: one that is there is then left as it is. */
  readonly isYours: boolean;
}

/** Where the executable is installed. */
export const PROGRAM = "/usr/local/bin/sluice";

/** Where the configuration is. */
export const CONFIGURATION = "/etc/sluice/config.yaml";

/** Where the systemd unit is. */
export const UNIT = "/etc/systemd/system/sluice.service";

/** What an installation is made from. */
export interface Parts {
  /** The path of the executable. */
  readonly program: string;
  readonly unit: string;
  readonly configuration: string;
  /** Whether the configuration was asked for with flags, and not only as it comes. */
  readonly isConfigured: boolean;
  /** What belongs to the shells and the manual, by path. */
  readonly helpers: Readonly<Record<string, string>>;
}

/** The files of an installation. */
export function filesOf({ program, unit, configuration, isConfigured, helpers }: Parts): readonly InstalledFile[] {
  const text = (path: string, text: string, isYours = false): InstalledFile => ({
    path,
    mode: 0o644,
    content: { text },
    isYours,
  });
  return [
    { path: PROGRAM, mode: 0o755, content: { copyOf: program }, isYours: false },
    text(UNIT, unit),
    text(CONFIGURATION, configuration, !isConfigured),
    ...Object.entries(helpers).map(([path, content]) => text(path, content)),
  ];
}

/** The systemd unit with these further words on the proxy's command line. */
export function unitWith(unit: string, words: readonly string[]): string {
  return unit.replace(/^ExecStart=.*$/m, (line) => [line, ...words.map(unitWord)].join(" "));
}

/** A word as systemd.service(5) and systemd.unit(5) have it quoted: specifiers and variables are not meant. */
function unitWord(word: string): string {
  const text = word.replaceAll("%", "%%").replaceAll("$", "$$$$");
  return /^[\w@%+=:,./$-]+$/.test(text) ? text : `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}
