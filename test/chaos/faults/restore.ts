/** Velero restores Machines before the Racks to which they refer, under load. */
import type { RestoreWindow } from '../../../src/api/restore-window.ts';
import { eventually } from '../../support/processes.ts';
import { asReturned, isVerified, seeWindowOf, trustVelero } from '../../support/restore-scene.ts';
import { createVelero, installVelero } from '../../support/velero.ts';
import { VELERO } from '../../support/velero-client.ts';
import { createNamespace } from '../../support/cluster.ts';
import { machine, MACHINES, rack, RESTORED_NAMESPACE } from '../kinds.ts';
import { timed, type Fault } from './fault.ts';

const MACHINES_RESTORED = 40;
const RACKS_RESTORED = 5;
const REPORT_MS = 90_000;

const isReported = ({ status }: RestoreWindow): boolean => status?.phase?.startsWith('Completed') ?? false;

/** Recovery: the time from the last write of Velero until the report without violations. */
export const restoreWindow: Fault = {
  name: 'restore window',
  run: async ({ cluster, isShort }) => {
    await installVelero(cluster);
    // Under load, Velero may pause longer than the one second of other tests.
    await trustVelero(cluster, { settle: '2s', idle: '30s' });
    await createNamespace(cluster, RESTORED_NAMESPACE);
    const velero = createVelero(cluster.plane);
    try {
      await untilDetectorCounts();
      let longest = 0;
      for (let round = 0; round < (isShort ? 1 : 3); round += 1) {
        const name = `chaos-${round}`;
        const run = await velero.begin({ name, backup: backup(round) });
        await run.write();
        const took = await timed(async () => {
          const { errors } = await run.finish();
          if (errors.length > 0) throw new Error(`the restore has errors: ${errors.join('; ')}`);
          const report = await seeWindowOf(cluster, name, 'the report', isReported, REPORT_MS);
          if (!isVerified(report)) throw new Error(`the report says: ${JSON.stringify(report.status)}`);
        });
        longest = Math.max(longest, took);
      }
      return longest;
    } finally {
      await velero.stop();
    }

    /** Waits until the detector is in force, as users who install a detector must do. */
    async function untilDetectorCounts(): Promise<void> {
      const run = await velero.begin({ name: 'warm-up', backup: [] });
      const restorer = cluster.impersonate(VELERO);
      const probe = machine(RESTORED_NAMESPACE, 'probe', { rack: 'not-yet' });
      await eventually(
        'the detector is in force',
        () =>
          restorer.create(MACHINES, probe, { dryRun: true }).then(
            () => true,
            () => false,
          ),
        { timeoutMs: 30_000, everyMs: 100 },
      );
      await run.write();
      await run.finish();
    }
  },
};

const backup = (round: number) => [
  ...Array.from({ length: RACKS_RESTORED }, (_, index) => asReturned(rack(`restored-${round}-${index}`))),
  ...Array.from({ length: MACHINES_RESTORED }, (_, index) =>
    asReturned({
      ...machine(RESTORED_NAMESPACE, `restored-${round}-${index}`, {
        rack: `restored-${round}-${index % RACKS_RESTORED}`,
        serial: `restored-${round}-${index}`,
        units: index,
      }),
    }),
  ),
];
