/** Without OpenTelemetry's SDK, which is loaded only when tracing is configured. */

export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

export interface Span {
  /** Spans that `work` starts, synchronously or later, are children of this span. */
  readonly run: <T>(work: () => T) => T;
  /** `traceparent` and `tracestate`, for a request to a service that continues this trace. */
  readonly headers: Readonly<Record<string, string>>;
  /** @param failure the type of the failure in one word: a status, or the name of an error */
  readonly end: (attributes?: Attributes, failure?: string) => void;
}

export interface Tracing {
  /** Work for an incoming request. It continues the trace in the headers. */
  readonly server: (name: string, headers: IncomingHeaders, attributes: Attributes) => Span;
  /** A request to another service. Undefined outside a span: watches and lease renewals are not traced. */
  readonly client: (name: string, attributes: Attributes) => Span | undefined;
  /** Internal work, as a child of the active span or as a new trace. Records the name of an error and rethrows it. */
  readonly work: <T>(name: string, attributes: Attributes, work: () => Promise<T>) => Promise<T>;
  readonly note: (attributes: Attributes) => void;
  /** The exemplar of the active span; undefined unless its trace is sampled. */
  readonly exemplar: () => Exemplar | undefined;
  /** Sends the remaining spans, for at most a few seconds. Never rejects. */
  readonly close: () => Promise<void>;
}

type IncomingHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/** Exemplar labels, with the names that tools expect. */
export type Exemplar = Readonly<Record<'trace_id' | 'span_id', string>>;
