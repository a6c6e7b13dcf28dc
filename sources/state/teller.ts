import { createAssembler, readGlobalEndpoint } from "../../kpng/receiving/mod.ts";
import type { SourceSink } from "../../core/objects/mod.ts";
import { affinityOfNote } from "./affinity_note.ts";
import type { StateItem } from "./document.ts";
import { type Section, SECTIONS } from "./items.ts";
import type { ReadItem } from "./reading.ts";

/** Tells a sink of state files that are read one after the other, by their difference. */
export interface Teller {
  /** The path of the object that an item of the last file is of, by the item's text; undefined where there was none. */
  known(section: Section, text: string): string | undefined;
  /** These are the items of the file now. The sink is told in one turn; `breathe` is awaited now and then before. */
  tell(items: readonly ReadItem[], breathe: () => Promise<void>): Promise<void>;
}

/** The items of one object. */
interface Told {
  /** How each is written, in the order of the file; undefined in a file that could not be split. */
  readonly texts: readonly (string | undefined)[];
  /** The most endpoints that one of them has. */
  readonly endpoints: number;
}

/** A list of the last file. The texts are parts of that file's, which is in memory as long as one of them is. */
interface ToldSection {
  readonly byPath: ReadonlyMap<string, Told>;
  readonly pathByText: ReadonlyMap<string, string>;
}

const NOTHING: ToldSection = { byPath: new Map(), pathByText: new Map() };

/**
 * Starts with a sink that was told nothing of the file at `path`. In full, objects keep what load balancing does not need.
 */
export function createTeller(path: string, sink: SourceSink, inFull: boolean): Teller {
  let line = 1;
  const problem = (where: string, message: string) => sink.problem(`${path}:${line}`, `${where}: ${message}`);
  const assembler = createAssembler({ ...sink, problem }, inFull);
  const told: Record<Section, ToldSection> = { nodes: NOTHING, services: NOTHING };

  /** Sets an object to what an item says; of several items the last one counts. Returns how many endpoints it has. */
  const set = (path: string, item: StateItem): number => {
    line = item.line;
    if (item.section === "nodes") {
      assembler.setNode(path, item.message);
      return 0;
    }
    const { message: { namespace, name = "" }, endpoints } = item;
    assembler.setService(path, affinityOfNote(item.message));
    const reading = { inFull, problem: (what: string) => problem(`Service ${path}`, what) };
    endpoints.forEach(({ line: at, message }, index) => {
      line = at;
      const info = { ...message, namespace: namespace || "default", serviceName: name, sourceName: name };
      assembler.setEndpoint(`${path}/${index}`, readGlobalEndpoint(info, reading));
    });
    return endpoints.length;
  };

  const deleteEndpoints = (path: string, from: number, to: number): void => {
    for (let index = from; index < to; index++) assembler.deleteEndpoint(`${path}/${index}`);
  };

  const setSection = async (section: Section, items: readonly ReadItem[], breathe: () => Promise<void>) => {
    const { byPath: before } = told[section];
    const byPath = new Map<string, Told>();
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
      await breathe();
    }
    for (const [path, { endpoints }] of before) {
      if (byPath.has(path)) continue;
      if (section === "nodes") assembler.deleteNode(path);
      else assembler.deleteService(path);
      deleteEndpoints(path, 0, endpoints);
    }
    const pathByText = new Map<string, string>();
    for (const { text, path } of items) if (text !== undefined) pathByText.set(text, path);
    told[section] = { byPath, pathByText };
  };

  return {
    known: (section, text) => told[section].pathByText.get(text),
    async tell(items, breathe) {
      for (const section of SECTIONS) {
        await setSection(section, items.filter((item) => item.section === section), breathe);
      }
      assembler.sync();
    },
  };
}

function sameTexts(a: Told["texts"], b: Told["texts"]): boolean {
  return a.length === b.length && a.every((text, index) => text !== undefined && text === b[index]);
}
