/**
 * The source for a state file of `sluice export` or KPNG, read again when it changes, and the writer of such files.
 *
 *   reading.ts   splits a state file into its items and parses them, fast for a subset of YAML
 *   document.ts  the items of a state file, validated
 *   write.ts     writes a state file
 *
 * In: a file. Out: objects, to a `SourceSink`. May touch: the file.
 */
import type { Source, SourceSink } from "../../core/objects/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";
import { createAssembler, readGlobalEndpoint } from "../../kpng/receiving/mod.ts";
import {
  type ClockAndLogger,
  dirname,
  fileErrorText,
  readTextWithin,
  startTurn,
  watchChanges,
} from "../../platform/mod.ts";
import { findFiles } from "../manifests/mod.ts";
import { type Section, SECTIONS, StateError, type StateItem } from "./document.ts";
import { type ReadItem, readStateFile } from "./reading.ts";
export { writeStateFile } from "./write.ts";

const QUIET_MS = 50;
const POLL_MS = 1000;
const MOST_BYTES = 256 * 2 ** 20;

/**
 * A source that reads a state file and follows its changes. An error is reported with its line. While the file is invalid or
 * missing, its last valid version stays in effect. With `inFull`, objects keep their details, to be passed on.
 */
export function createStateSource({ path, inFull, clock, logger }: ClockAndLogger & {
  readonly path: string;
  readonly inFull: boolean;
}): Source {
  return {
    async run(sink, signal) {
      const changes = watchChanges({ clock, logger, signal, quietMs: QUIET_MS, pollMs: POLL_MS });
      const reporter = createReporter(path, sink, inFull);
      let seen: string | undefined;
      let isRead = false;

      // A function of its own, so that the file's text is released when it returns.
      const read = async () => {
        const yieldTurn = startTurn(clock);
        const items = await readStateFile(await readTextWithin(path, MOST_BYTES), reporter.known, yieldTurn);
        if (!signal.aborted) await reporter.report(items, yieldTurn);
        isRead = true;
      };

      while (!signal.aborted) {
        try {
          await changes.watch(dirname(path));
          const [file] = (await findFiles(path)).files;
          const fingerprint = file?.fingerprint;
          if (fingerprint === undefined || fingerprint !== seen) {
            await read();
            sink.problems(path, []);
          }
          seen = fingerprint;
        } catch (error) {
          const reason = error instanceof Deno.errors.NotFound ? "no such file" : fileErrorText(error);
          const subject = error instanceof StateError ? `${path}:${error.line}` : path;
          const detail = isRead ? `${reason}; its last valid version stays in effect` : reason;
          sink.problems(path, [{ code: "file-unreadable", subject, detail }]);
        }
        if (!signal.aborted) await changes.next();
      }
    },
  };
}

/** Reports the versions of a state file to a sink, as differences. */
interface StateReporter {
  /** The object path of an item in the last version, by the item's text; undefined if it was not there. */
  known(section: Section, text: string): string | undefined;
  /** Reports the file's current items to the sink, all in one turn; awaits `yieldTurn` before that. */
  report(items: readonly ReadItem[], yieldTurn: () => Promise<void>): Promise<void>;
}

interface ReportedItems {
  /** Their texts, in the order of the file; undefined in a file that could not be split. */
  readonly texts: readonly (string | undefined)[];
  /** The largest number of endpoints in one of them. */
  readonly endpoints: number;
}

/** A list of the last version. Its texts are slices of the file's text and keep it in memory. */
interface ReportedSection {
  readonly byPath: ReadonlyMap<string, ReportedItems>;
  readonly pathByText: ReadonlyMap<string, string>;
}

const NOTHING: ReportedSection = { byPath: new Map(), pathByText: new Map() };

/** Creates a reporter for the file at `path`. With `inFull`, objects keep their details. */
export function createReporter(path: string, sink: SourceSink, inFull: boolean): StateReporter {
  let line = 1;
  const problems: ReportProblems = (scope, problems) =>
    sink.problems(
      `${path} ${scope}`,
      problems.map(({ code, subject, detail }) => ({
        code,
        subject: `${path}:${line}`,
        detail: `${subject}: ${detail}`,
      })),
    );
  const assembler = createAssembler({ ...sink, problems }, inFull);
  const reported: Record<Section, ReportedSection> = { nodes: NOTHING, services: NOTHING };

  /** Sets an object from an item; of several items the last one counts. Returns the number of its endpoints. */
  const set = (path: string, item: StateItem): number => {
    line = item.line;
    if (item.section === "nodes") {
      assembler.setNode(path, item.message);
      return 0;
    }
    const { message: { namespace, name = "" }, endpoints } = item;
    assembler.setService(path, item.message);
    endpoints.forEach(({ line: at, message }, index) => {
      line = at;
      const info = { ...message, namespace: namespace || "default", serviceName: name, sourceName: name };
      const sentences: string[] = [];
      const endpoint = readGlobalEndpoint(info, { inFull, problem: (sentence) => sentences.push(sentence) });
      assembler.setEndpoint(`${path}/${index}`, endpoint, { subject: `Service ${path}`, sentences });
    });
    return endpoints.length;
  };

  const deleteEndpoints = (path: string, from: number, to: number): void => {
    for (let index = from; index < to; index++) assembler.delete("endpoint", `${path}/${index}`);
  };

  const setSection = async (section: Section, items: readonly ReadItem[], yieldTurn: () => Promise<void>) => {
    const { byPath: before } = reported[section];
    const byPath = new Map<string, ReportedItems>();
    for (const [path, of] of Map.groupBy(items, ({ path }) => path)) {
      const known = before.get(path);
      const texts = of.map(({ text }) => text);
      let endpoints = 0;
      if (known !== undefined && sameTexts(known.texts, texts)) endpoints = known.endpoints;
      else {
        for (const { item } of of) endpoints = Math.max(endpoints, set(path, await item()));
        deleteEndpoints(path, endpoints, known?.endpoints ?? 0);
        if (section === "services") assembler.assemble(path);
      }
      byPath.set(path, { texts, endpoints });
      await yieldTurn();
    }
    for (const [path, { endpoints }] of before) {
      if (byPath.has(path)) continue;
      assembler.delete(section === "nodes" ? "Node" : "Service", path);
      deleteEndpoints(path, 0, endpoints);
    }
    const pathByText = new Map<string, string>();
    for (const { text, path } of items) if (text !== undefined) pathByText.set(text, path);
    reported[section] = { byPath, pathByText };
  };

  return {
    known: (section, text) => reported[section].pathByText.get(text),
    async report(items, yieldTurn) {
      for (const section of SECTIONS) {
        await setSection(section, items.filter((item) => item.section === section), yieldTurn);
      }
      assembler.sync();
    },
  };
}

function sameTexts(a: ReportedItems["texts"], b: ReportedItems["texts"]): boolean {
  return a.length === b.length && a.every((text, index) => text !== undefined && text === b[index]);
}
