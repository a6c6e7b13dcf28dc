/** A state file of KPNG's (`kpng file`) as a source, watched, and polled every second as KPNG does. */
import { type Clock } from "../../../platform/clock.ts";
import { errorText, type Logger } from "../../../platform/log.ts";
import { createAssembler } from "../../wire/assembler.ts";
import { readGlobalEndpoint } from "../../wire/received_endpoint.ts";
import { openDenoWatch, watchChanges } from "../../../platform/folder_changes.ts";
import { findFiles, folderOf } from "../manifests/folder.ts";
import type { Source, SourceSink } from "../source.ts";
import { affinityOfNote } from "./affinity_note.ts";
import { readStateDocument, type StateDocument, StateError } from "./document.ts";

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

      while (!signal.aborted) {
        try {
          await changes.watch(folderOf(path));
          const [file] = (await findFiles(path)).files;
          const fingerprint = file?.fingerprint;
          if (fingerprint === undefined || fingerprint !== seen) {
            teller.tell(readStateDocument(await Deno.readTextFile(path)));
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

/** Tells a sink what state files say, one after the other, each problem with its line. */
function createTeller(path: string, sink: SourceSink, inFull: boolean) {
  let line = 1;
  const problem = (where: string, message: string) => sink.problem(`${path}:${line}`, `${where}: ${message}`);
  const assembler = createAssembler({ ...sink, problem }, inFull);

  return {
    tell({ nodes, services }: StateDocument) {
      assembler.reset();
      for (const { line: at, message } of nodes) {
        line = at;
        assembler.setNode(message.name ?? "", message);
      }
      for (const { service: { line: at, message }, endpoints } of services) {
        line = at;
        const { namespace = "default", name = "" } = message;
        const key = `${namespace}/${name}`;
        assembler.setService(key, affinityOfNote(message));
        endpoints.forEach((endpoint, index) => {
          line = endpoint.line;
          const info = { ...endpoint.message, namespace, serviceName: name, sourceName: name };
          const reading = { inFull, problem: (what: string) => problem(`Service ${key}`, what) };
          assembler.setEndpoint(`${key}/${index}`, readGlobalEndpoint(info, reading));
        });
      }
      assembler.sync();
    },
  };
}
