/** The slice of tracing that the server uses. Undefined where tracing is disabled. */
import type { IncomingHttpHeaders } from 'node:http';

import { groupResourceName } from '../json/kube-object.ts';
import type { PendingReview } from './admission-log.ts';

type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

interface ServerSpan {
  /** Runs `work`. Spans that it starts, now or later, are children of this span. */
  readonly run: <T>(work: () => T) => T;
  /** @param failure one word: why there is no decision */
  readonly end: (attributes: Attributes, failure?: string) => void;
}

export interface ServerTracing {
  /** Continues the trace that the headers name. */
  readonly server: (name: string, headers: IncomingHttpHeaders, attributes: Attributes) => ServerSpan;
  /** Adds attributes to the current span. */
  readonly note: (attributes: Attributes) => void;
}

/** @see https://opentelemetry.io/docs/specs/semconv/http/http-spans/ */
export const httpAttributes = (route: string): Attributes => ({
  'http.request.method': 'POST',
  'http.route': route,
  'url.scheme': 'https',
});

/** Ends the span of a request that received this HTTP status. A status of 500 and above counts as our failure. */
export function endAnswered(span: ServerSpan, status: number, failure?: string): void {
  span.end({ 'http.response.status_code': status }, failure ?? (status >= 500 ? String(status) : undefined));
}

/**
 * The attributes of a review in a trace. User and object name are only in the log, under the same uid: people with
 * access to traces may not have access to that data.
 */
export function reviewAttributes({ webhook, entry, request }: PendingReview): Attributes {
  const { uid, operation, resource, subResource, namespace, dryRun } = request;
  const name = groupResourceName(resource);
  return {
    ...httpAttributes(`/${webhook}/:entry`),
    'gatehouse.webhook': webhook,
    'gatehouse.entry': entry,
    'gatehouse.uid': uid,
    'gatehouse.operation': operation,
    'gatehouse.resource': subResource === '' ? name : `${name}/${subResource}`,
    'k8s.namespace.name': namespace,
    'gatehouse.dry_run': dryRun ? true : undefined,
  };
}
