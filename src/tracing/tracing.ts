/**
 * What the process says of where its time goes. The rooms that are traced declare the part of this that they use, and know nothing
 * of OpenTelemetry, whose SDK is loaded only where it is asked for.
 */

export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** A piece of work, from its beginning to its end. */
export interface Span {
  /** What `work` begins, at once or later, lies within this span. */
  readonly run: <T>(work: () => T) => T;
  /** `traceparent`, `tracestate`: for a request to a service that continues this trace. */
  readonly headers: Readonly<Record<string, string>>;
  /** @param failure the type of what went wrong, one word: a status, or the name of an error */
  readonly end: (attributes?: Attributes, failure?: string) => void;
}

export interface Tracing {
  /** Work that a request asked for. It goes on with the trace that the headers name. */
  readonly server: (name: string, headers: IncomingHeaders, attributes: Attributes) => Span;
  /** A request to another service. Undefined outside of other spans: watches and lease renewals are not traced on their own. */
  readonly client: (name: string, attributes: Attributes) => Span | undefined;
  /** Work of our own: within the span in whose course it is begun, or a trace of its own. What it throws is noted and thrown. */
  readonly work: <T>(name: string, attributes: Attributes, work: () => Promise<T>) => Promise<T>;
  /** Adds to the span in whose course it is called; elsewhere it does nothing. */
  readonly note: (attributes: Attributes) => void;
  /** Of the span in whose course it is called, if its trace is kept. */
  readonly exemplar: () => Exemplar | undefined;
  /** Sends what has not been sent, for some seconds at most. Never rejects. */
  readonly close: () => Promise<void>;
}

type IncomingHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Labels of a metric, by the names that tools know. */
export type Exemplar = Readonly<Record<'trace_id' | 'span_id', string>>;
