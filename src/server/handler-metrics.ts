/** Metrics of handlers. Their names are those of files or chosen by their authors: as many as there are handlers. */
import { Counter, Histogram, type Registry } from 'prom-client';

/** `timeout` and `error`: the handler failed, whatever was answered because of that. */
export type HandlerOutcomeLabel = 'allow' | 'deny' | 'retry' | 'error' | 'timeout';

export interface HandlerMetrics {
  readonly handler: (
    labels: { readonly handler: string; readonly webhook: string; readonly outcome: HandlerOutcomeLabel },
    seconds: number,
  ) => void;
  /** @param reason one of a handful of words */
  readonly handlerFailure: (handler: string, reason: string) => void;
}

/** Seconds. Most handlers compute for less than a millisecond; those that read live wait for some. */
const BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

export function createHandlerMetrics(registers: Registry[]): HandlerMetrics {
  const duration = new Histogram({
    name: 'gatehouse_handler_duration_seconds',
    help: 'How long a handler took, by handler, webhook and outcome (allow, deny, retry, error, timeout).',
    labelNames: ['handler', 'webhook', 'outcome'],
    buckets: BUCKETS,
    registers,
  });
  const failures = new Counter({
    name: 'gatehouse_handler_failures_total',
    help: 'Failures of handlers, by handler and reason (exception, timeout, result, draft, read, unreadable, stray).',
    labelNames: ['handler', 'reason'],
    registers,
  });
  return {
    handler: (labels, seconds) => {
      duration.observe(labels, seconds);
    },
    handlerFailure: (handler, reason) => {
      failures.inc({ handler, reason });
    },
  };
}
