/** A kind of event, and its subscribers. */
export interface Topic<Details extends readonly unknown[] = []> {
  /** Calls every subscriber, in the order of their subscriptions. */
  publish(...details: Details): void;
  subscribe(subscriber: (...details: Details) => void): void;
}

/** Creates a topic without subscribers, for parts that are assembled before those that react to them. */
export function createTopic<Details extends readonly unknown[] = []>(): Topic<Details> {
  const subscribers: ((...details: Details) => void)[] = [];
  return {
    publish: (...details) => subscribers.forEach((subscriber) => subscriber(...details)),
    subscribe: (subscriber) => void subscribers.push(subscriber),
  };
}
