/**
 * The API of the control socket: HTTP with JSON.
 *
 *   GET /v1/process                                 ProxyProcess
 *   GET /v1/status                                  NodeView
 *   GET /v1/events?since=17                         Feed: the events after update 17
 *   GET /v1/explain?to=10.96.0.10:80/tcp&from=pod   Explanation (from: pod, node, outside or an address; optional)
 *   GET /v1/resolve?name=default/web&from=pod       Question[]
 *   GET /v1/services?search=default/web             ListedService[]
 *   GET /v1/endpoints?search=default/web            ListedEndpoint[]
 *   GET /v1/browse?search=web&namespace=shop&attention=true&order=attention&page=2&pageSize=20
 *                                                   ServicePage
 *   GET /v1/state?family=IPv4                       FamilyDelta: the desired state of the kernel, as a full snapshot
 */
import { FAMILIES } from "../../platform/mod.ts";
import { type Answers, NotReadyError, QuestionError, readQuestion, SERVICE_ORDERS } from "../mod.ts";
import { type HttpHandler, jsonAnswer, textAnswer } from "../../platform/http/mod.ts";
import type { NodeView } from "../status/mod.ts";
import { thisProcess } from "./process.ts";
import type { Feed } from "../../observe/mod.ts";

/** Every answer that a running proxy gives. */
export interface ControlAnswers extends Answers {
  status(): Promise<NodeView>;
  /** Returns the events that are new or have changed since the update of this number. */
  events(since: number): Promise<Feed>;
}

/** Answers requests on the control socket. */
export function createControlHandler(answers: ControlAnswers): HttpHandler {
  const routes: Readonly<Record<string, (query: URLSearchParams) => Promise<unknown>>> = {
    "/v1/process": () => Promise.resolve(thisProcess()),
    "/v1/status": () => answers.status(),
    "/v1/events": (query) => answers.events(Number(query.get("since")) || 0),
    "/v1/explain": (query) => answers.explain(readQuestion(query.get("to") ?? "", query.get("from") ?? undefined)),
    "/v1/resolve": (query) => answers.resolve(query.get("name") ?? "", query.get("from") ?? undefined),
    "/v1/services": (query) => answers.services(query.get("search") ?? ""),
    "/v1/endpoints": (query) => answers.endpoints(query.get("search") ?? ""),
    "/v1/browse": (query) =>
      answers.browse({
        search: query.get("search") ?? "",
        namespace: query.get("namespace") ?? "",
        order: SERVICE_ORDERS.find((order) => order === query.get("order")),
        attention: query.get("attention") === "true",
        page: Number(query.get("page")) || 1,
        pageSize: Number(query.get("pageSize")) || 20,
      }),
    "/v1/state": (query) => {
      const family = FAMILIES.find((one) => one === query.get("family"));
      if (family === undefined) throw new QuestionError(`family must be one of ${FAMILIES.join(", ")}`);
      return answers.state(family);
    },
  };
  return async ({ method, path, query }) => {
    const route = Object.hasOwn(routes, path) ? routes[path] : undefined;
    if (route === undefined || method !== "GET") {
      return textAnswer(404, `GET ${Object.keys(routes).join(", ")}\n`);
    }
    try {
      return jsonAnswer(200, await route(new URLSearchParams(query)));
    } catch (error) {
      if (error instanceof QuestionError) return textAnswer(400, `${error.message}\n`);
      if (error instanceof NotReadyError) return textAnswer(503, `${error.message}\n`);
      throw error;
    }
  };
}
