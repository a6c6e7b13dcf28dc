/**
 * Answers to what people ask of a proxy, running or not: what becomes of a connection, and why; which services and
 * endpoints there are. Nothing is decided here: it reads what the planner decided.
 *
 *   question.ts          what is asked, read from text
 *   basis.ts             what answers are taken from
 *   frontend.ts          whose address and port it is
 *   way.ts               what can become of a connection, and why
 *   ways.ts              what becomes of it, by where it comes from:
 *   rules_way.ts         … in iptables and nftables mode
 *   ipvs_way.ts          … in IPVS mode
 *   policies.ts          the settings that decided
 *   endpoints.ts         each endpoint, and why it is used or not
 *   explain.ts           all of that together
 *   listing.ts           services and endpoints in tables
 *   stopped_traffic.ts   what of a service gets nowhere
 *   browsing.ts          a page of services with their endpoints
 *   answers.ts           all that can be asked
 *   offline.ts           the same of a source that is read once (not loaded where a proxy runs)
 */
export { type Answers, createAnswers } from "./answers.ts";
export { addressesOfHost, type AnswerBasis, type FamilyBasis } from "./basis.ts";
export type { BrowsedService, BrowseQuestion, ServicePage } from "./browsing.ts";
export { explain } from "./explain.ts";
export type { ExplainedEndpoint, ExplainedRules, ExplainedService, Explanation } from "./explanation.ts";
export { endpointText } from "./frontend.ts";
export {
  endpointsTable,
  frontendsOfService,
  hasOutside,
  type ListedEndpoint,
  type ListedService,
  listEndpoints,
  listServices,
  servicesTable,
} from "./listing.ts";
export { answerOffline } from "./offline.ts";
export { type Origin, type Question, QuestionError, readQuestion } from "./question.ts";
export { stoppedTraffic } from "./stopped_traffic.ts";
export type { FateReason, KeepReason, MasqueradeReason, Outcome, Source } from "./outcome.ts";
