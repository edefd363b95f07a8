/** The part of the tracing that this room uses. Where it is undefined, nobody asked for traces. */
import type { IncomingHttpHeaders } from 'node:http';

import { groupResourceName } from '../json/kube-object.ts';
import type { AdmissionRequest } from '../admission/review/request.ts';
import type { Outcome } from './metrics/metrics.ts';

type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

interface ServerSpan {
  /** What `work` begins, at once or later, lies within this span. */
  readonly run: <T>(work: () => T) => T;
  /** @param failure one word: why nothing was decided */
  readonly end: (attributes: Attributes, failure?: string) => void;
}

export interface ServerTracing {
  /** Goes on with the trace that the headers name. */
  readonly server: (name: string, headers: IncomingHttpHeaders, attributes: Attributes) => ServerSpan;
  /** Adds to the span in whose course it is called. */
  readonly note: (attributes: Attributes) => void;
}

/** @see https://opentelemetry.io/docs/specs/semconv/http/http-spans/ */
export const httpAttributes = (route: string): Attributes => ({
  'http.request.method': 'POST',
  'http.route': route,
  'url.scheme': 'https',
});

/** Ends the span of a request that was answered with this HTTP status: 500 and above is our failure. */
export function endAnswered(span: ServerSpan, status: number, found: Attributes = {}): void {
  span.end({ 'http.response.status_code': status, ...found }, status >= 500 ? String(status) : undefined);
}

/**
 * What a trace says of a review. Who asked, and for which object, is for the log, which has a line with the same uid: whoever may
 * look at traces need not be one who may know that.
 */
export function reviewAttributes(webhook: 'mutate' | 'validate', entry: string, request: AdmissionRequest) {
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
  } satisfies Attributes;
}

export const outcomeAttribute = (outcome: Outcome): Attributes => ({ 'gatehouse.outcome': outcome });
