/** A file to install. */
export interface InstalledFile {
  /** Absolute path, without the root. */
  readonly path: string;
  readonly mode: number;
  readonly content: { readonly text: string } | { readonly copyOf: string };
  /** Whether the file belongs to the administrator; an existing one is then kept. */
  readonly isYours: boolean;
}

/** Installation path of the executable. */
export const PROGRAM = "/usr/local/bin/sluice";

/** Installation path of the configuration. */
export const CONFIGURATION = "/etc/sluice/config.yaml";

/** Installation path of the systemd unit. */
export const UNIT = "/etc/systemd/system/sluice.service";

/** Contents of an installation. */
export interface Parts {
  /** Path of the executable to copy. */
  readonly program: string;
  readonly unit: string;
  readonly configuration: string;
  /** Whether flags or --config determined the configuration, rather than the shipped default. */
  readonly isConfigured: boolean;
  /** Completions and man page by path. */
  readonly helpers: Readonly<Record<string, string>>;
}

/** Returns the files to install. */
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

/** Appends words to the proxy's command line in a systemd unit. */
export function unitWith(unit: string, words: readonly string[]): string {
  return unit.replace(/^ExecStart=.*$/m, (line) => [line, ...words.map(unitWord)].join(" "));
}

/** Quotes a word for ExecStart, without expansion of specifiers and variables (systemd.service(5), systemd.unit(5)). */
function unitWord(word: string): string {
  const text = word.replaceAll("%", "%%").replaceAll("$", "$$$$");
  return /^[\w@%+=:,./$-]+$/.test(text) ? text : `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}
