import type { ModeDescription } from "../backends/contract/mod.ts";
import type { Effect } from "../core/channel/mod.ts";
import {
  type FamilyDelta,
  type FamilySettings,
  type RelayPlaces,
  type RuleDescription,
  type ServicePortKey,
  withRelayPlaces,
} from "../core/model/mod.ts";
import type { BalanceOptions, FamilyPlanner, PlannedPort } from "../core/planning/mod.ts";
import type { Tracking } from "../core/tracking/mod.ts";
import { ownAddresses } from "../observe/mod.ts";
import type { CountsOfPorts } from "../core/model/mod.ts";
import { type Family, isLoopback } from "../platform/mod.ts";
import {
  browse,
  type BrowseQuestion,
  list,
  type ListedEndpoint,
  type ListedService,
  type ServicePage,
} from "./listing.ts";
import { explain } from "./explain.ts";
import type { ExplainedRules, Explanation } from "./explanation.ts";
import { type Question, resolveDestination } from "./question.ts";

/** The answers of this process, or of a running proxy through its control socket. */
export interface Answers {
  explain(question: Question): Promise<Explanation>;
  /**
   * Finds the destinations that a name stands for; see `resolveDestination`.
   * @throws {QuestionError}
   */
  resolve(name: string, from: string | undefined): Promise<readonly Question[]>;
  /** Lists the service ports whose name contains `search`. */
  services(search: string): Promise<readonly ListedService[]>;
  /** Lists the endpoints of the service ports whose name contains `search`. */
  endpoints(search: string): Promise<readonly ListedEndpoint[]>;
  /** Returns one page of service ports with their endpoints. */
  browse(question: BrowseQuestion): Promise<ServicePage>;
  /** Returns the state that the kernel should have, as a full snapshot. */
  state(family: Family): Promise<FamilyDelta>;
}

/** Creates answers from this process. */
export function createAnswers(basis: AnswerBasis): Answers {
  return {
    explain: (question) => explain(question, basis),
    // deno-lint-ignore require-await -- errors become rejections
    resolve: async (name, from) => resolveDestination(name, from, basis),
    services: (search) => Promise.resolve(list(basis, search).map(({ service }) => service)),
    endpoints: (search) => Promise.resolve(list(basis, search).flatMap(({ endpoints }) => endpoints)),
    browse: (question) => Promise.resolve(browse(basis, question)),
    state(family) {
      const { planner, settings, revision, relayPlaces } = basis.families[family];
      const set = [...planner.ports()].flatMap(({ planned }) => planned ?? []);
      const state = { revision: revision(), base: undefined, settings: settings(), set, deleted: [] };
      const places = relayPlaces?.();
      return Promise.resolve(places === undefined ? state : withRelayPlaces(state, places));
    },
  };
}

/** The data behind answers about one family. */
export interface FamilyBasis {
  readonly planner: Pick<FamilyPlanner, "ports" | "portsOf" | "limitOf" | "openConnections">;
  settings(): FamilySettings;
  /** The revision last sent to the worker; 0 if none was sent or no proxy runs. */
  revision(): number;
  /** The rules of a service port in the kernel; undefined if unknown. */
  rules(key: ServicePortKey): Promise<RuleDescription | undefined>;
  /** Where the relay listens, if the rules need one. */
  relayPlaces?(): RelayPlaces | undefined;
  /** The time at which the current plan of a service port took effect; undefined if no proxy runs. */
  since(port: PlannedPort): Effect | undefined;
}

/** The data behind answers, from a running proxy or from a source that was read once. */
export interface AnswerBasis {
  readonly nodeName: string;
  /** The mode of `families`. */
  readonly mode: ModeDescription;
  readonly tracking: Tracking;
  readonly families: Readonly<Record<Family, FamilyBasis>>;
  /** How services can be balanced. */
  readonly balance: BalanceOptions;
  /** Whether `families` return the rules of a running proxy, or the rules that a proxy would write. */
  readonly rulesFrom: ExplainedRules["from"];
  /** The counted traffic; absent if traffic metrics are off, or no proxy runs. */
  readonly traffic?: Pick<CountsOfPorts, "ofPort" | "ofEndpoint">;
  /** This host's own addresses, canonical, in addition to those in the Node object. */
  hostAddresses(): readonly string[];
}

/** The addresses of this host's interfaces, canonical, without loopback addresses. */
export function addressesOfHost(): readonly string[] {
  return ownAddresses().filter((address) => !isLoopback(address));
}
