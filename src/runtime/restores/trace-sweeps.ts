import type { Sweep } from './sweep.ts';
import type { Tracing } from '../../tracing/tracing.ts';

/** The same sweep, in a span of its own where there are traces. */
export function traceSweeps(tracing: Tracing | undefined, sweep: Sweep): Sweep {
  if (tracing === undefined) return sweep;
  return (options, ...rest) =>
    tracing.work('sweep', { 'gatehouse.interim': options.interim }, async () => {
      const result = await sweep(options, ...rest);
      const { objectsScanned, violations, unreadable } = result;
      tracing.note({
        'gatehouse.objects': objectsScanned,
        'gatehouse.violations': violations.length,
        'gatehouse.unreadable': unreadable.length,
      });
      return result;
    });
}
