/**
 * Answers questions about a proxy, running or not: what happens to a connection and why, and which services and
 * endpoints exist. It decides nothing itself: the answers come from what the planner decided.
 *
 * In: the planner's service ports, the trackers and the settings of each family. Out: plain data. May touch: for an
 * answer without a running proxy, the configured source and the host's addresses.
 */
export { type Answers, createAnswers } from "./answers.ts";
export { addressesOfHost, type AnswerBasis, type FamilyBasis } from "./basis.ts";
export { type BrowsedService, type BrowseQuestion, SERVICE_ORDERS, type ServicePage } from "./browsing.ts";
export { explain } from "./explain.ts";
export { balanceText, type EndpointShares, sharesText } from "./balance.ts";
export type { ExplainedEndpoint, ExplainedRules, ExplainedService, Explanation } from "./explanation.ts";
export { clientText, fateText, masqueradeText, placeText, sinceText } from "./explanation_words.ts";
export { endpointText } from "./frontend.ts";
export { hasExternalFrontends } from "../core/model/mod.ts";
export {
  failuresText,
  frontendsOfService,
  type ListedEndpoint,
  type ListedService,
  listEndpoints,
  listServices,
  stoppedTraffic,
} from "./listing.ts";
export { answerOffline } from "./offline.ts";
export { isAddressAndPort, type Origin, ORIGINS, type Question, QuestionError, readQuestion } from "./question.ts";
export type { Outcome } from "./outcome.ts";
