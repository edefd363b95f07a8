import { ExportResultCode } from '@opentelemetry/core';
import type { SpanExporter } from '@opentelemetry/sdk-trace';

import type { Log } from '../log.ts';

/** A collector may be down for a while, and spans arrive all the time. */
const LOG_EVERY_MS = 60_000;

/**
 * Wraps `exporter`: logs how many spans it loses, at most once a minute, and logs when it works again.
 * @param now in milliseconds
 */
export function logLosses(
  exporter: SpanExporter,
  log: Pick<Log, 'info' | 'warn'>,
  now = () => performance.now(),
): SpanExporter {
  let lost = 0;
  let loggedAt: number | undefined;
  const failed = (spans: number, err: Error | undefined) => {
    lost += spans;
    if (loggedAt !== undefined && now() - loggedAt < LOG_EVERY_MS) return;
    loggedAt = now();
    log.warn({ err, lost }, 'could not send traces: spans are lost, and nothing else is');
    lost = 0;
  };
  const succeeded = () => {
    if (loggedAt === undefined) return;
    loggedAt = undefined;
    log.info({ lost }, 'traces are sent again');
    lost = 0;
  };
  return {
    export: (spans, done) => {
      exporter.export(spans, (result) => {
        if (result.code === ExportResultCode.SUCCESS) succeeded();
        else failed(spans.length, result.error);
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
  };
}
