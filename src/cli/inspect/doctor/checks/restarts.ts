/** Checks that Gatehouse may restart the workloads that ask for it. */
import type { InstallationReadings } from '../../read-cluster/read-installation.ts';
import { judgeReading, ok, orElse, someOf, warning, type Results } from '../finding.ts';

/** Without the permissions, the leader does not even see the annotation, so no Event says that they are missing. */
export const checkRestarts = ({ restarts, namespace, controllers }: InstallationReadings): Results =>
  judgeReading(restarts, ({ checked, missing }) => {
    const findings = missing.map((place) =>
      warning(
        `the ServiceAccount ${namespace}/${controllers} may not restart ${someOf(place.workloads)} after a renewal`,
        `kubectl -n ${place.namespace} create rolebinding gatehouse-restarts --clusterrole=gatehouse-restarts ` +
          `--serviceaccount=${namespace}:${controllers}; the ClusterRole is in deploy/components/restarts`,
      ),
    );
    const all =
      checked === 1
        ? 'the workload that asks for restarts'
        : `all ${checked} workloads that ask for restarts`;
    return orElse(
      findings,
      ok(checked === 0 ? 'no workload asks for restarts' : `Gatehouse may restart ${all}`),
    );
  });
