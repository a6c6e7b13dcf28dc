import type { Family, FamilyDelta } from "../core/model/mod.ts";
import type { AnswerBasis } from "./basis.ts";
import { browse, type BrowseQuestion, type ServicePage } from "./browsing.ts";
import { explain } from "./explain.ts";
import type { Explanation } from "./explanation.ts";
import { type ListedEndpoint, type ListedService, listEndpoints, listServices } from "./listing.ts";
import type { Question } from "./question.ts";

/** Everything that can be asked, whoever answers: this process, or a running proxy through its control socket. */
export interface Answers {
  explain(question: Question): Promise<Explanation>;
  /** The service ports whose name has `search` in it. */
  services(search: string): Promise<readonly ListedService[]>;
  /** The endpoints of those. */
  endpoints(search: string): Promise<readonly ListedEndpoint[]>;
  /** A page of services with their endpoints. */
  browse(question: BrowseQuestion): Promise<ServicePage>;
  /** What the kernel is to be brought to, as a whole state. */
  state(family: Family): Promise<FamilyDelta>;
}

/** The answers of this process. */
export function createAnswers(basis: AnswerBasis): Answers {
  return {
    explain: (question) => explain(question, basis),
    services: (search) => Promise.resolve(listServices(basis, search)),
    endpoints: (search) => Promise.resolve(listEndpoints(basis, search)),
    browse: (question) => Promise.resolve(browse(basis, question)),
    state(family) {
      const { planner, settings, revision } = basis.families[family];
      const set = [...planner.ports()].flatMap(({ planned }) => planned ?? []);
      return Promise.resolve({ revision: revision(), base: undefined, settings: settings(), set, deleted: [] });
    },
  };
}
