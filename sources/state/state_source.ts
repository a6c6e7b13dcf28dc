/** A state file of KPNG's (`kpng file`) as a source, watched, and polled every second as KPNG does. */
import { type Clock, errorText, type Logger, openDenoWatch, startTurn, watchChanges } from "../../platform/mod.ts";
import { findFiles, folderOf } from "../manifests/mod.ts";
import type { Source } from "../../core/objects/mod.ts";
import { readStateFile } from "./reading.ts";
import { createTeller } from "./teller.ts";
import { StateError } from "./tree.ts";

/** What the source needs. */
export interface StateSourceOptions {
  readonly path: string;
  /** Whether what load balancing does not need is kept, for those who hand it on. */
  readonly inFull: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
}

const QUIET_MS = 50;
const POLL_MS = 1000;

/**
 * A source that reads a state file and follows its changes. A file with a mistake is reported with its line, and what it
 * last said stays in effect; so it does while there is no file.
 */
export function createStateSource({ path, inFull, clock, logger }: StateSourceOptions): Source {
  return {
    async run(sink, signal) {
      const changes = watchChanges({
        clock,
        logger,
        signal,
        openWatch: openDenoWatch,
        quietMs: QUIET_MS,
        longestQuietMs: 10 * QUIET_MS,
        pollMs: POLL_MS,
      });
      const teller = createTeller(path, sink, inFull);
      let seen: string | undefined;
      let complaint = "";
      const complain = (where: string, message: string) => {
        // An editor may touch a file many times over; the same mistake is said once.
        if (complaint !== where + message) sink.problem(where, message);
        complaint = where + message;
      };

      // What was read is let go of when this ends, and not only when the file changes again.
      const read = async () => {
        const breathe = startTurn(clock);
        const items = await readStateFile(await Deno.readTextFile(path), teller.known, breathe);
        if (!signal.aborted) await teller.tell(items, breathe);
      };

      while (!signal.aborted) {
        try {
          await changes.watch(folderOf(path));
          const [file] = (await findFiles(path)).files;
          const fingerprint = file?.fingerprint;
          if (fingerprint === undefined || fingerprint !== seen) {
            await read();
            complaint = "";
          }
          seen = fingerprint;
        } catch (error) {
          const isMistake = error instanceof StateError;
          const why = error instanceof Deno.errors.NotFound ? "there is no such file" : errorText(error);
          complain(isMistake ? `${path}:${error.line}` : path, `${why}; what it last said stays in effect`);
        }
        if (!signal.aborted) await changes.next();
      }
    },
  };
}
