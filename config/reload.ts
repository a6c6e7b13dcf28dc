/** Reloads the configuration file of a running proxy when it changes. */
import {
  type ClockAndLogger,
  dirname,
  errorText,
  type OpenWatch,
  readTextWithinSync,
  sameData,
  watchChanges,
} from "../platform/mod.ts";
import type { Problem, ReportProblems } from "../core/problems/mod.ts";
import type { CommandLine } from "./command_line.ts";
import type { Configuration } from "./configuration.ts";

/** The quiet period before the file is read, to avoid reading a partially written one. */
const QUIET_MS = 200;
/** The interval of reads without an event: a watch ends when its folder is replaced. */
const POLL_MS = 10_000;
const MOST_BYTES = 16 * 2 ** 20;

/** The scope of problems of the configuration. */
export const CONFIGURATION_SCOPE = "configuration";

/**
 * Settings that need a restart of the process, by their names in the file: oomScoreAdj is written before privileges are dropped, and
 * a kubeconfig may need a credential plugin.
 */
const AT_START = { kubeconfig: "clientConnection.kubeconfig", oomScoreAdj: "oomScoreAdj" } as const;

/** The problem of a configuration with warnings; none without any. `path` is its file, undefined if there are only flags. */
export function ignoredIn(path: string | undefined, warnings: readonly string[]): readonly Problem[] {
  if (warnings.length === 0) return [];
  return [{ code: "configuration-ignored", subject: path || "flags", detail: warnings.join("; ") }];
}

/** Reads a file that a command line names. Throws as `readTextWithin` does: a pipe cannot be read more than once. */
export function readConfigurationText(path: string): string {
  return readTextWithinSync(path, MOST_BYTES);
}

/**
 * Starts to follow a configuration file; its current contents count as read. The returned function resolves with the next valid
 * configuration that differs from the given one, with its settings where a change needs a restart; undefined when the signal
 * aborts. An invalid file is reported with its lines; so are fields without effect, and changes that need a restart.
 */
export function followConfiguration(
  { path, read, readText = readConfigurationText, clock, logger, onProblems, signal, openWatch }: ClockAndLogger & {
    /** The path of the configuration file. */
    readonly path: string;
    /** Parses the command line, and with it the configuration file, again. */
    readonly read: () => Promise<CommandLine>;
    readonly readText?: (path: string) => string;
    /** Receives an invalid file, until it is valid again. */
    readonly onProblems: ReportProblems;
    /** Ends the follower. */
    readonly signal: AbortSignal;
    readonly openWatch?: OpenWatch;
  },
): (current: Configuration) => Promise<Configuration | undefined> {
  const changes = watchChanges({ clock, logger, signal, openWatch, quietMs: QUIET_MS, pollMs: POLL_MS });

  const currentText = (): string => {
    try {
      return readText(path);
    } catch (error) {
      return `cannot read: ${errorText(error)}`;
    }
  };
  let text = currentText();

  return async (current) => {
    while (!signal.aborted) {
      await changes.watch(dirname(path));
      await changes.next();
      const now = currentText();
      if (signal.aborted) break;
      if (now === text) continue;
      text = now;
      const line = await read();
      if (line.kind === "errors") {
        const detail = line.errors.join("; ");
        onProblems(CONFIGURATION_SCOPE, [{ code: "configuration-invalid", subject: path, detail }]);
        continue;
      }
      if (line.kind !== "start") {
        onProblems(CONFIGURATION_SCOPE, []);
        continue;
      }
      const { configuration, needRestart } = applicable(current, line.configuration);
      onProblems(CONFIGURATION_SCOPE, [...ignoredIn(path, line.warnings), ...restartNeeded(path, needRestart)]);
      // Another spelling has no effect.
      if (!sameData({ ...configuration, forms: current.forms }, current)) return configuration;
      logger.info("configuration file changed without effect", { file: path });
    }
    return undefined;
  };
}

/** The changed configuration, except for settings that need a restart of the process, and the names of those that differ. */
function applicable(
  current: Configuration,
  changed: Configuration,
): { readonly configuration: Configuration; readonly needRestart: readonly string[] } {
  const differing = (Object.keys(AT_START) as (keyof typeof AT_START)[])
    .filter((name) => !sameData(current[name], changed[name]));
  const before = Object.fromEntries(differing.map((name) => [name, current[name]]));
  return { configuration: { ...changed, ...before }, needRestart: differing.map((name) => AT_START[name]) };
}

function restartNeeded(path: string, settings: readonly string[]): readonly Problem[] {
  if (settings.length === 0) return [];
  return [{ code: "restart-needed", subject: path, detail: `not in effect yet: ${settings.join(", ")}` }];
}
