import type { Clock } from "../platform/mod.ts";

/** Questions to a worker, each answered by a message with the question's number. */
export interface Questions<Answer> {
  /** Posts a question and resolves with its answer; undefined if there is none in time. */
  ask(post: (number: number) => void): Promise<Answer | undefined>;
  /** Delivers an answer; ignored if its question has timed out. */
  answer(number: number, answer: Answer | undefined): void;
}

/** Questions that wait up to `timeoutMs` for their answers. */
export function createQuestions<Answer>(clock: Clock, timeoutMs: number): Questions<Answer> {
  const waiting = new Map<number, (answer: Answer | undefined) => void>();
  let lastNumber = 0;
  return {
    async ask(post) {
      const { promise, resolve } = Promise.withResolvers<Answer | undefined>();
      const number = ++lastNumber;
      const cancel = clock.schedule(timeoutMs, () => resolve(undefined));
      waiting.set(number, resolve);
      post(number);
      try {
        return await promise;
      } finally {
        cancel();
        waiting.delete(number);
      }
    },
    answer: (number, answer) => waiting.get(number)?.(answer),
  };
}
