import type { Backend, BackendOptions, ModeDescription } from "../backends/contract/mod.ts";
import type { Fields, OptionsOf } from "../platform/schema/mod.ts";
import type { Ledgers } from "../core/channel/mod.ts";
import type { ApiWrite, ClusterObject, ReportLink, Source, SourceSink } from "../core/objects/mod.ts";
import type {
  CallWorker,
  CountsOfPorts,
  FamilySettings,
  KernelSetting,
  SyncReport,
  WorkerCall,
} from "../core/model/mod.ts";
import type { InternalService, PlanChanges, PlannedPort, Weighing } from "../core/planning/mod.ts";
import type { Problem, ProblemKind, ReportProblems } from "../core/problems/mod.ts";
import type { ServiceKey, TrackedChanges, Tracking } from "../core/tracking/mod.ts";
import type { ClockAndLogger, Family } from "../platform/mod.ts";
import type { TlsFiles, WireAddress } from "../kpng/address/mod.ts";
import type { MetricReading, Registry } from "../platform/metrics/mod.ts";

type ProblemKinds = Readonly<Record<string, ProblemKind>>;

/**
 * A feature as plain data: everything that the rest of the product needs to know about it unless it is on. A feature is a
 * folder with a `feature.ts` and a line in registry.ts; help, man page, validation, docs/problems.md, `/metrics` and
 * `sluice status` follow from it. Its code is loaded only if it is on.
 */
export interface Feature<F extends Fields = Fields, P extends ProblemKinds = ProblemKinds> {
  /** The name of its folder. */
  readonly name: string;
  /** Its fields of the configuration file, at the top level. */
  readonly fields: F;
  /** Flags that set one of these fields: its dotted path, and the description of the flag. */
  readonly flags: Readonly<Record<string, readonly [path: string, description: string]>>;
  readonly problems: P;
  /** Reports settings that cannot work, or not in this mode. */
  check?(options: OptionsOf<F>, mode: ModeDescription, report: SettingReports): void;
  isOn(options: OptionsOf<F>, mode: ModeDescription, environment: Environment): boolean;
  /** The settings that a family's worker needs for it. */
  familySettings?(options: OptionsOf<F>): Partial<FamilySettings>;
  readonly kernelSettings?: readonly KernelSetting[];
  /** The permissions at the API server that it needs in addition to those of every proxy. */
  permissions?(options: OptionsOf<F>): readonly Permission[];
  /** Loads its code; undefined if it does nothing but take the place of the API server. */
  load?(): Promise<{ start(node: Node, options: OptionsOf<F>): Promise<RunningFeature | undefined> }>;
  /** Takes the place of the API server as the source of this node; only one feature does. */
  readonly source?: {
    /** Distinguishes its cached state from the API server's: `site shop`. */
    origin(options: OptionsOf<F>): string;
    load(): Promise<{ openSource(cluster: ClusterAccess, options: OptionsOf<F>): FeatureSource }>;
  };
}

/** An RBAC permission that a proxy uses. */
export interface Permission {
  readonly verb: string;
  /** `services`, `endpointslices.discovery.k8s.io`, `nodes/status`. */
  readonly resource: string;
  /** The only namespace in which it is used; undefined for all, or for cluster-scoped resources. */
  readonly namespace?: string;
  /** The only object for which it is used; undefined for all. */
  readonly name?: string;
  /** The effect of missing it; undefined if it is required. */
  readonly without?: string;
  /** The way to grant it, if deploy/rbac.yaml does not as it is. */
  readonly fix?: string;
}

/** The means of a feature that takes the place of the API server as the source. */
export interface ClusterAccess extends ClockAndLogger {
  /** The name of this node's Node object. */
  readonly nodeName: string;
  /** Requests to the API server; each fails with an ApiError. */
  readonly api: {
    /** Reads the object at a path; the resource is as RBAC names it. */
    read(resource: string, path: string, signal: AbortSignal): Promise<unknown>;
    send(request: ApiWrite, signal: AbortSignal): Promise<unknown>;
  };
  /** Opens the API server as a source of every kind, for all nodes. */
  watchApi(onLink: ReportLink): Source;
  /** Opens a server of Sluice's own as such a source. */
  watchServer(server: ServerAccess, onLink: ReportLink): Promise<Source>;
  /** Its file in the state directory; undefined without the folder. */
  readonly file: FeatureFile | undefined;
  /** Receives the state of the link to the server in use. */
  readonly onLink: ReportLink;
}

/** A server of Sluice's own, and when a connection to it is given up and tried again. */
interface ServerAccess {
  readonly address: WireAddress;
  readonly tls: TlsFiles;
  readonly backoff: { readonly firstMs: number; readonly longestMs: number };
  readonly liveness: { readonly probeAfterMs: number; readonly answerMs: number };
}

/** A file that was opened before the permission to write files is dropped. */
export interface FeatureFile {
  readonly path: string;
  /** Returns what was written last; undefined if nothing was. */
  read(): Promise<Uint8Array | undefined>;
  write(bytes: Uint8Array<ArrayBuffer>): Promise<void>;
}

/** A source that has taken the place of the API server. */
export interface FeatureSource extends Source {
  /** A sink that the feature hears, too; the source must report to it. */
  tee(sink: SourceSink): SourceSink;
  /** Every object of the cluster, to keep. */
  objects(): Iterable<ClusterObject>;
  /** Starts what it does in the running proxy, before the source runs. */
  startRun(node: Node): RunningFeature;
}

/** Returns a variable of the process's environment; undefined if it is not set, or not among those that a run keeps. */
export type Environment = (name: string) => string | undefined;

/** Reports a setting at a dotted path, its value, and what it must be. */
export type ReportSetting = (path: string, value: unknown, must: string) => void;

/** Reports settings, each by its dotted path. */
interface SettingReports {
  readonly invalid: ReportSetting;
  /** Reports a setting that is invalid here: `is set, but …`. */
  refuse(path: string, message: string): void;
  /** Reports a setting that may not have the expected effect: `in mode ipvs counts no …`. */
  warn(path: string, message: string): void;
}

/** Checks the types of a feature's description. */
export function feature<const F extends Fields, const P extends ProblemKinds>(
  description: Feature<F, P>,
): Feature<F, P> {
  return description;
}

/**
 * A call to a family's worker with its handler; one of a feature is in `features/<name>/calls.ts`, and listed in calls.ts.
 * Both isolates load these modules, so code that only the worker needs is in `worker.ts` or a folder `worker`, and `handle`
 * imports it.
 */
export interface AnsweredCall<Request = unknown, Answer = unknown> extends WorkerCall<Request, Answer> {
  /** The programs that it runs in addition to those of the modes. */
  readonly tools?: readonly string[];
  /** Answers it in the worker; undefined if the mode has no answer. The request is valid. */
  handle(worker: FamilyWorker, request: Request): Promise<Answer | undefined> | Answer | undefined;
}

/** The parts of a family's worker that the handler of a call may use. */
export interface FamilyWorker {
  readonly backend: Backend;
  readonly options: BackendOptions;
  /** The search path of tools. */
  readonly path: string;
}

/** The parts of the running proxy that a feature may use. */
export interface Node extends ClockAndLogger {
  /** The name of this node's Node object. */
  readonly name: string;
  readonly mode: ModeDescription;
  readonly tracking: Pick<Tracking, "node" | "services" | "endpoints">;
  readonly ledgers: Ledgers;
  readonly families: readonly NodeFamily[];
  readonly health: NodeHealth;
  /** The addresses of this host, canonical. */
  readonly ownAddresses: () => readonly string[];
  /** The API server as the owner of this node's Node; undefined with another source. */
  readonly api: NodeApi | undefined;
  /** Reports problems, as Events of the Node too if their kinds name one, unless they are about Services or endpoints. */
  readonly reportProblems: ReportProblems;
  /** Records an Event of a Service for one of its problems; the action is one word. */
  readonly recordServiceProblem: (service: ServiceKey, problem: Problem, action: string) => void;
  /** Records an Event of the Node that needs no action. */
  readonly recordEvent: (reason: string, subject: string, message: string) => void;
  /** The state of the proxy in words, as `sluice status` begins. */
  readonly headline: () => Promise<string>;
  readonly environment: Environment;
  /** Ends the run. */
  readonly signal: AbortSignal;
}

/** One IP family of the node. */
export interface NodeFamily {
  readonly family: Family;
  /** Whether any service port belongs to a Service of the cluster. */
  hasServices(): boolean;
  /**
   * Serves a service of Sluice's own, or no longer. `onEffect` is called once the rules for it are in effect, and not if
   * another call comes first.
   */
  serveInternal(service: InternalService | undefined, onEffect: () => void): void;
  /** The planned service ports of the cluster's services. */
  ports(): Iterable<PlannedPort>;
  portsOf(service: ServiceKey): readonly PlannedPort[];
  /** Sets the TCP endpoints that are left out where enough others are left; read with each plan. */
  leaveOut(endpoints: () => ReadonlySet<string>): void;
  /** Sets the loads that change the weights of endpoints with counted connections; read with each plan. */
  weigh(loads: Weighing): void;
  /** Plans these services again, after a change of what is left out or of the loads. */
  planAgain(services: ReadonlySet<ServiceKey>): void;
  /** The addresses of this host that serve node ports, without limits that Services set. */
  nodePortAddresses(): readonly string[];
  /** Requests a comparison with the kernel; a report of a full sync follows. */
  compare(): void;
  readonly call: CallWorker;
}

interface NodeHealth {
  /** Sets what is known of a family's packets; undefined for nothing, as initially. */
  setPackets(family: Family, packets: PacketFlow | undefined): void;
  status(): NodeHealthStatus;
}

/** The health of the proxy itself, regardless of its node. */
export interface NodeHealthStatus {
  /** Whether no family has an overdue update. */
  readonly healthy: boolean;
  /**
   * Whether the rules of every family took effect at least once since this process started; families that the host
   * cannot serve do not count.
   */
  readonly inEffect: boolean;
  /** The error of a family's last sync, until a sync succeeds: the state of the kernel is unknown. Absent if no sync failed. */
  readonly failure?: string;
  /** Absent if unknown. */
  readonly packets?: PacketFlow;
}

/** Whether packets flow. */
export interface PacketFlow {
  /** False if the packets of a family have stopped; undefined while unknown. */
  readonly flow: boolean | undefined;
  /** Why they have stopped; undefined if they flow or the cause is not known yet. */
  readonly reason?: string | undefined;
}

/** Requests to the API server; each rejects if the server refuses it. */
export interface NodeApi {
  send(request: ApiWrite, signal: AbortSignal): Promise<unknown>;
  readNode(signal: AbortSignal): Promise<unknown>;
  /** Whether the error is one that only an administrator can remove. */
  isRefusal(error: unknown): boolean;
}

/** A feature that is on. */
export interface RunningFeature {
  addMetrics?(registry: Registry): void;
  updateMetrics?(): Promise<void>;
  /** Called after each round of planning, with the changes that were planned. */
  planned?(changes: TrackedChanges): void;
  /** Called when a round of planning, which began at this time (ms since 1970), has changed service ports of a family. */
  changed?(family: Family, changes: PlanChanges, startedAtMs: number): void;
  /** Called after each sync, with the trigger times (ms since 1970) of the endpoint changes that it brought into effect. */
  reported?(report: SyncReport, triggerTimesMs: readonly number[]): void;
  /** The state of the node as the feature sees it. */
  status?(): FeatureStatus | undefined;
  /** The state of a family as the feature sees it. */
  familyStatus?(family: Family): FeatureStatus | undefined;
  /** Counts that answers show of service ports and endpoints; at most one feature has them. */
  readonly counts?: CountsOfPorts;
  /** Called after the signal's abort, unless another run follows at once; ends soon. */
  stopped?(): Promise<void>;
}

/**
 * A feature of the whole process: it starts before the permission to read the environment is dropped, and lasts from run to
 * run. `sluice serve` has it, too.
 */
export interface ProcessFeature extends Pick<Feature, "name" | "problems"> {
  /** Descriptions of its variables, for the man page. */
  readonly environment: Readonly<Record<string, string>>;
  /** Loads its code and starts it; undefined if the environment does not turn it on, or after a failure, which it logs. */
  start(process: Process): Promise<RunningProcessFeature | undefined>;
}

/** The parts of the process that a feature may use. */
export interface Process extends ClockAndLogger {
  /** The name of this node's Node object; undefined in `sluice serve`. */
  readonly nodeName: string | undefined;
  /** Access to the environment may be denied after the start. */
  readonly environment: Environment;
  readonly reportProblems: ReportProblems;
}

/** A feature of the process that is on. */
export interface RunningProcessFeature {
  /** Receives the metrics, which began at 0 at this time (ms since 1970), instead of those of the run before. */
  attach(metrics: MetricSource, startedAtMs: number): void;
  /** Starts what it does in one run; undefined for nothing. */
  startRun(node: Node): RunningFeature | undefined;
  /** Stops it with the process; ends soon. */
  stop(): Promise<void>;
}

/** Metrics that can be read. */
export interface MetricSource {
  read(): Promise<readonly MetricReading[]>;
}

/** The state of a feature, for `sluice status`, `sluice top` and the page. Plain data. */
export interface FeatureStatus {
  /** The name of its row: `Packets`; in `status`, one word of at most nine letters. */
  readonly label: string;
  readonly tone: "good" | "warning" | "bad" | "idle";
  /** `canary answers in 2 ms`. */
  readonly words: string;
  /** The cause; undefined if there is nothing to add. */
  readonly reason: string | undefined;
  /** In `familyStatus`, the state of the whole family if this feature sees it broken: `packets do not flow (no-route)`. */
  readonly broken?: string;
  /** Details for programs. */
  readonly data: unknown;
}
