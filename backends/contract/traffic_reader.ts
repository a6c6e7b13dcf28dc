import type { FamilySettings, TrafficReading } from "../../core/model/mod.ts";
import { errorText, type Logger } from "../../platform/mod.ts";

/** Reads the counters of traffic of one family in one mode. */
export interface TrafficReader {
  /**
   * Notes the counters of an earlier process, once, so that they do not count again. Call it before the first sync.
   * Throws if the kernel cannot be read.
   */
  start(): Promise<void>;
  /** Returns what was counted since the last reading. Throws if the kernel cannot be read. */
  read(): Promise<TrafficReading>;
  /** Forgets which service port owns a frontend, because service ports have changed. */
  forgetOwners(): void;
}

/** A reader that exists while the settings ask for one. */
export interface ReaderOnDemand<Reader extends TrafficReader> {
  /** Creates, keeps or drops the reader. Call it before each sync. A failure to read is logged. */
  follow(settings: Pick<FamilySettings, "countTraffic"> | undefined): Promise<void>;
  /** The reader; undefined if the settings do not ask for one. */
  current(): Reader | undefined;
}

/** Creates no reader yet. @param load creates one; its code is loaded only then */
export function createReaderOnDemand<Reader extends TrafficReader>(
  load: () => Promise<Reader>,
  logger: Logger,
): ReaderOnDemand<Reader> {
  let reader: Reader | undefined;
  return {
    async follow(settings) {
      if (!settings?.countTraffic) {
        reader = undefined;
        return;
      }
      reader ??= await load();
      reader.forgetOwners();
      await reader.start().catch((error: unknown) => {
        logger.warn("cannot read the counters of traffic", { error: errorText(error) });
      });
    },
    current: () => reader,
  };
}
