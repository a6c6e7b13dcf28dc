import type {
  AttemptCounts,
  ComparisonCause,
  ConnectionReading,
  Family,
  FamilyDelta,
  FamilySettings,
  GoneEndpoint,
  IpvsSettings,
  PacketCounts,
  RuleDescription,
  ServicePortKey,
  SyncCounts,
  SyncProblem,
  TrafficReading,
} from "../../core/model/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";
import { type ClockAndLogger, errorText, type Logger } from "../../platform/mod.ts";
import type { RulesetGeneration, Runner } from "../tools/mod.ts";

/** The inputs of every backend. */
export interface BackendOptions extends ClockAndLogger {
  readonly family: Family;
  readonly runner: Runner;
  /** Spares readings of a ruleset that has not changed; undefined if it is unknown here. */
  readonly generation?: RulesetGeneration;
  /** Receives problems that do not fail a sync; ignored by default. */
  readonly onProblems?: ReportProblems;
  /** For IPVS mode; undefined in others. */
  readonly ipvs?: IpvsSettings;
}

/** The host and the family that are checked for a mode. */
export type HostQuestion = Pick<BackendOptions, "family" | "runner" | "ipvs">;

/** The result of a sync; `Count` is the union of the counts that the mode's description declares. */
export interface SyncResult<Count extends string = string> {
  /** Service ports that could not be programmed. Everything else is in effect. */
  readonly problems: readonly SyncProblem[];
  readonly counts: SyncCounts<Count>;
  /** Request another sync after this delay even if nothing changed. */
  readonly againAfterMs?: number;
}

/** The smallest of several delays; undefined if there is none. */
export function soonest(...delaysMs: readonly (number | undefined)[]): number | undefined {
  const smallestMs = Math.min(...delaysMs.map((delayMs) => delayMs ?? Infinity));
  return smallestMs === Infinity ? undefined : smallestMs;
}

/** The result of a sync that did nothing. */
export const NOTHING_DONE: SyncResult<never> = { problems: [], counts: {} };

/** Keeps the kernel of one IP family in the state that the deltas describe. */
export interface Backend<Count extends string = string> {
  /** Checks the tools and the kernel. Throws an error that names what must be fixed before anything can work. */
  setup(): Promise<void>;
  /**
   * Writes the kernel settings that the mode needs, once setup has succeeded; syncs do not wait for it. Logs settings
   * that cannot be written. Absent in modes that need none.
   */
  configure?(): Promise<void>;
  /**
   * Applies a delta on top of all earlier ones. Idempotent. If the kernel could not be brought to the desired state completely,
   * throws and keeps the known state of the kernel and the remaining work: the next call retries, even with an empty delta. The
   * first batch (`head`) of a full snapshot takes effect if the kernel serves nothing yet; otherwise it is only stored, and the
   * existing rules stay until the rest arrives.
   */
  sync(delta: FamilyDelta): Promise<SyncResult<Count>>;
  /** Compares the kernel with the desired state and repairs the difference; `interval` by default. Throws as `sync` does. */
  resync(cause?: ComparisonCause): Promise<SyncResult<Count>>;
  /**
   * Whether the rules that packets enter first are in the kernel: a check between comparisons that takes milliseconds, for
   * any number of services. Throws if the kernel cannot be read. Absent in modes without such a check.
   */
  hasEntryRules?(): Promise<boolean>;
  /** The shortest time between two such checks, in milliseconds; 4,000 by default. */
  readonly entryCheckMs?: number;
  /** Removes everything of Sluice and kube-proxy from this family, and nothing else. */
  cleanup(): Promise<void>;
  /**
   * Resets the connections of dead endpoints at their next packets, until a sync uses the endpoint again. May run during a sync.
   * Does not throw. Absent in modes whose connections conntrack does not translate.
   */
  resetGone?(gone: readonly GoneEndpoint[]): Promise<void>;
  /** Removes what must not outlive the proxy; its rules stay. May be called during a sync. Absent if there is nothing. */
  stop?(): Promise<void>;
  /** Describes the rules of a service port, from the desired state; undefined if the service port is not part of it. */
  describe?(key: ServicePortKey): RuleDescription | undefined;
  /** Returns the traffic since the last call; undefined if none is counted. May run during a sync. */
  readTraffic?(): Promise<TrafficReading | undefined>;
  /** Reads the packet counters of rules; may run during a sync. Absent in modes whose rules count nothing. */
  packetCounts?(): Promise<PacketCounts>;
  /** Reads the connection attempts that the rules have counted; may run during a sync. Absent in modes that count none. */
  attemptCounts?(): Promise<AttemptCounts>;
  /**
   * Reads the connections of the endpoints whose connections are to be counted, and has the kernel count them from the first
   * reading on. May run during a sync. Throws if the kernel cannot count or be read. Absent in modes that do not count them.
   */
  openConnections?(): Promise<ConnectionReading>;
}

/** Thrown if this host cannot serve the family in this mode at all: a tool or the kernel's support is missing. */
export class UnsupportedHostError extends Error {
  override readonly name = "UnsupportedHostError";
}

/** Reads the counters of traffic of one family in one mode. */
export interface TrafficReader {
  /** Notes the counters of an earlier process, before the first sync. Throws if the kernel cannot be read. */
  start(): Promise<void>;
  /** Returns the traffic since the last reading. Throws if the kernel cannot be read. */
  read(): Promise<TrafficReading>;
  /** Forgets which service port owns a frontend, because service ports have changed. */
  forgetOwners(): void;
}

/** A reader that exists while the settings ask for one. */
interface ReaderOnDemand<Reader extends TrafficReader> {
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
