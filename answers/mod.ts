/**
 * Answers questions about a proxy, running or not: what happens to a connection and why, and which services and
 * endpoints exist. It decides nothing itself: the answers come from what the planner decided.
 *
 * In: the planner's service ports, the trackers and the settings of each family. Out: plain data. May touch: for an
 * answer without a running proxy, the configured source and the host's addresses.
 */
export { addressesOfHost, type Answers, createAnswers, NotReadyError } from "./answers.ts";
export type { AnswerBasis, FamilyBasis } from "./basis.ts";
export {
  type Attention,
  attentionText,
  type BrowsedService,
  type BrowseQuestion,
  failuresText,
  frontendsOfService,
  type ListedEndpoint,
  type ListedService,
  SERVICE_ORDERS,
  type ServicePage,
  stateOfService,
} from "./listing.ts";
export { explain } from "./explain.ts";
export { balanceText, sharesText } from "./balance.ts";
export {
  type ExplainedEndpoint,
  type ExplainedRules,
  type ExplainedService,
  type Explanation,
  placeText,
  sinceText,
} from "./explanation.ts";
export { endpointText } from "./frontend.ts";
export { answerOffline } from "./offline.ts";
export { isAddressAndPort, ORIGINS, type Question, QuestionError, readQuestion } from "./question.ts";
export { clientText, fateText, masqueradeTexts, type Outcome } from "./outcome.ts";
