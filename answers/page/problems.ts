import { countText } from "../../platform/mod.ts";
import { type CurrentProblem, type ProblemCode, problemKind, type Severity } from "../../core/problems/mod.ts";
import type { ProxyStatus, StateWords } from "../control/mod.ts";
import { type Html, html } from "./html.ts";
import { moment } from "./time.ts";

const TONES: Readonly<Record<Severity, StateWords["tone"]>> = { error: "bad", warning: "warning" };

/** The number of kinds of problems, and of occurrences of each, shown at first; the rest is collapsed. */
const SHOWN = 4;

/** The current problems by kind, each with its start and its fix; nothing without any. */
export function problemsPart({ problems }: Pick<ProxyStatus, "problems">): Html {
  if (problems.length === 0) return html``;
  const kinds = [...Map.groupBy(problems, ({ code }) => code)].map(kindRow);
  return html`<h2>Problems</h2>${list("problems", "problems", kinds)}`;
}

/** The first rows of a list; the rest expands. */
function list(key: string, name: string, rows: readonly Html[]): Html {
  const rest = rows.slice(SHOWN);
  return html`<ul class="${name}">${rows.slice(0, SHOWN)}</ul>${
    rest.length > 0 &&
    html`
      <details data-key="${key}">
        <summary>${rest.length} more</summary>
        <ul class="${name}">${rest}</ul>
      </details>
    `
  }`;
}

function kindRow([code, problems]: readonly [ProblemCode, readonly CurrentProblem[]]): Html {
  const { severity, title, fix } = problemKind(code);
  return html`<li class="${TONES[severity]}"><p class="title"><strong>${title}</strong> <code>${code}</code></p>
${list(`problems ${code}`, "occurrences", problems.map(occurrence))}
<p class="fix"><b>Fix</b> ${fix}</p></li>`;
}

function occurrence({ subject, detail, sinceMs, count }: CurrentProblem): Html {
  return html`<li><b>${subject}</b> <span class="where">since ${moment(sinceMs)}${
    count > 1 && `, reported ${countText(count)} times`
  }</span><br>${detail}</li>`;
}
