/** A state file of KPNG (`kpng file`) as a source, watched, and polled every second as in KPNG. */
import { type Clock, errorText, type Logger, startTurn, watchChanges } from "../../platform/mod.ts";
import { findFiles, folderOf } from "../manifests/mod.ts";
import type { Source } from "../../core/objects/mod.ts";
import { readStateFile } from "./reading.ts";
import { createReporter } from "./reporter.ts";
import { StateError } from "./tree.ts";

/** Options of `createStateSource`. */
export interface StateSourceOptions {
  readonly path: string;
  /** Whether to keep details, to pass them on. */
  readonly inFull: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
}

const QUIET_MS = 50;
const POLL_MS = 1000;

/**
 * A source that reads a state file and follows its changes. An error is reported with its line. While the file is invalid or
 * missing, its last valid version stays in effect.
 */
export function createStateSource({ path, inFull, clock, logger }: StateSourceOptions): Source {
  return {
    async run(sink, signal) {
      const changes = watchChanges({ clock, logger, signal, quietMs: QUIET_MS, pollMs: POLL_MS });
      const reporter = createReporter(path, sink, inFull);
      let seen: string | undefined;

      // A function of its own, so that the file's text is released when it returns.
      const read = async () => {
        const yieldTurn = startTurn(clock);
        const items = await readStateFile(await Deno.readTextFile(path), reporter.known, yieldTurn);
        if (!signal.aborted) await reporter.report(items, yieldTurn);
      };

      while (!signal.aborted) {
        try {
          await changes.watch(folderOf(path));
          const [file] = (await findFiles(path)).files;
          const fingerprint = file?.fingerprint;
          if (fingerprint === undefined || fingerprint !== seen) {
            await read();
            sink.problems(path, []);
          }
          seen = fingerprint;
        } catch (error) {
          const reason = error instanceof Deno.errors.NotFound ? "no such file" : errorText(error);
          const subject = error instanceof StateError ? `${path}:${error.line}` : path;
          const detail = `${reason}; its last valid version stays in effect`;
          sink.problems(path, [{ code: "file-unreadable", subject, detail }]);
        }
        if (!signal.aborted) await changes.next();
      }
    },
  };
}
