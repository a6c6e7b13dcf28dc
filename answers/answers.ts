import { type FamilyDelta, withRelayPlaces } from "../core/model/mod.ts";
import { ownAddresses } from "../observe/mod.ts";
import { type Family, isLoopback } from "../platform/mod.ts";
import type { AnswerBasis } from "./basis.ts";
import {
  browse,
  type BrowseQuestion,
  list,
  type ListedEndpoint,
  type ListedService,
  type ServicePage,
} from "./listing.ts";
import { explain } from "./explain.ts";
import type { Explanation } from "./explanation.ts";
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

/** The proxy cannot answer yet: its caches have not synced. */
export class NotReadyError extends Error {
  override readonly name = "NotReadyError";
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

/** The addresses of this host's interfaces, canonical, without loopback addresses. */
export function addressesOfHost(): readonly string[] {
  return ownAddresses().filter((address) => !isLoopback(address));
}
