/**
 * Measures the speed of issuing certificates and the memory that they need: `npm run bench:certs`. With `-- --check` it
 * fails when a target is missed, and with `-- --only memory` it measures one part. API server, Gatehouse and client share one machine, so other load distorts the times.
 */
import { cpus, loadavg } from 'node:os';
import { parseArgs } from 'node:util';

import { printFigures, type Figure } from './figures.ts';
import { measureLeaves } from './leaves.ts';
import { measureMemory, WHY_SANDBOX } from './memory.ts';
import { measureProber } from './prober.ts';
import { measureRotation } from './rotation.ts';
import { measureServices } from './services.ts';

const { values: flags } = parseArgs({
  options: { check: { type: 'boolean', default: false }, only: { type: 'string', multiple: true } },
});
const PARTS = {
  leaves: measureLeaves,
  services: async () => [
    ...(await onKubeApiserver('Services at once', measureServices)),
    ...(await measureServices('sandbox')),
  ],
  rotation: () => onKubeApiserver('one rotation', measureRotation),
  prober: measureProber,
  memory: measureMemory,
} satisfies Record<string, () => Promise<readonly Figure[]>>;

const load = () => loadavg()[0]?.toFixed(1) ?? '';
const before = load();
const figures: Figure[] = [];
for (const [name, measure] of Object.entries(PARTS))
  if (flags.only?.includes(name) ?? true) figures.push(...(await measure()));
printFigures(figures);
console.log(WHY_SANDBOX);
console.log(
  `${cpus().length} cores (${cpus()[0]?.model ?? ''}), Node ${process.version}; ` +
    `load ${before} before the benchmark, ${load()} at its end, including the benchmark itself`,
);

const missed = figures.filter(({ target }) => target?.met === false);
if (flags.check && missed.length > 0) {
  for (const { what, measured, target } of missed)
    console.error(`${what.trim()}: ${measured} instead of ${target?.wanted ?? ''}`);
  process.exitCode = 1;
}

/** A machine without a control plane can still measure the rest, but cannot show that the target is met. */
async function onKubeApiserver(
  what: string,
  measure: (kind: 'kube-apiserver') => Promise<readonly Figure[]>,
): Promise<readonly Figure[]> {
  try {
    return await measure('kube-apiserver');
  } catch (error) {
    console.warn('kube-apiserver:', error);
    const target = { wanted: 'a measurement', met: false };
    return [{ what: `${what}, kube-apiserver`, measured: 'none, see above', target }];
  }
}
