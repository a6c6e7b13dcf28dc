import type { InstalledService } from "./service_files.ts";

/**
 * The treatment of an existing file that differs from the one to install: `always` and `backup` replace it, the latter after
 * copying it; `unedited` replaces it unless it was edited since its installation; `never` keeps it.
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

/** Contents of an installation. */
export interface Parts {
  /** Path of the executable to copy. */
  readonly program: string;
  /** The service's file; undefined if no supported service manager is there. */
  readonly service: InstalledService | undefined;
  readonly configuration: string;
  /** The treatment of an existing configuration and service file. */
  readonly replacement: { readonly configuration: Replacement; readonly service: Replacement };
  /** Completions and man page by path. */
  readonly helpers: Readonly<Record<string, string>>;
}

/** Returns the files to install. */
export function filesOf({ program, service, configuration, replacement, helpers }: Parts): readonly InstalledFile[] {
  const text = (path: string, text: string, replacement: Replacement = "unedited"): InstalledFile => ({
    path,
    mode: 0o644,
    content: { text },
    replacement,
  });
  return [
    { path: PROGRAM, mode: 0o755, content: { copyOf: program }, replacement: "always" },
    ...(service === undefined
      ? []
      : [{ ...service, content: { text: service.text }, replacement: replacement.service }]),
    text(CONFIGURATION, configuration, replacement.configuration),
    ...Object.entries(helpers).map(([path, content]) => text(path, content)),
  ];
}
