/** Checks that the API server calls Gatehouse and gets a response. */
import { someOf } from '../../../../json/counted.ts';
import { WINDOW_ENTRY } from '../../../../admission/webhooks/protect-own-kinds.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../../../admission/webhooks/webhook-configurations.ts';
import {
  INSTALLATION_ROLE,
  isOwnedByInstallation,
} from '../../../../admission/webhooks/installation-owner.ts';
import { environmentName } from '../../../../config/environment.ts';
import { docsUrl } from '../../../../config/version.ts';
import type { EndpointSlice } from '../../../../runtime/endpoints/slices.ts';
import type {
  InstallationReadings,
  LiveConfiguration,
  LiveService,
} from '../../read-cluster/read-installation.ts';
import { APPLY_MANIFESTS } from '../../../deploy-manifests.ts';
import { valueOf } from '../../read-cluster/reading.ts';
import { judgeReading, logsOf, ok, podsOf, problem, warning, type Results } from '../finding.ts';
import { devSessionOf, type DevSessionState } from '../../../../admission/webhooks/dev-entries.ts';

export function checkConfigurations({ namespace, mutating, validating }: InstallationReadings): Results {
  const next = `find out why the leader does not write it: ${logsOf(namespace)}`;
  const judge = (kind: string) => (live: LiveConfiguration | undefined) => {
    if (live === undefined) {
      const seen = `${kind} "${WEBHOOK_CONFIGURATION_NAME}" does not exist: nothing is enforced`;
      return problem(seen, next);
    }
    const names = (live.webhooks ?? []).map(({ name }) => name);
    return names.some((name) => name.startsWith(`${WINDOW_ENTRY}.`))
      ? ok(`the ${kind} has ${names.length} entries`)
      : problem(`the ${kind} lacks the entries for the kinds of Gatehouse`, next);
  };
  return [
    judgeReading(mutating, judge('MutatingWebhookConfiguration')),
    judgeReading(validating, judge('ValidatingWebhookConfiguration')),
  ].flat();
}

export function checkEndpoints({ namespace, service, slices }: InstallationReadings): Results {
  return judgeReading(service, (live) => {
    const name = `Service ${namespace}/gatehouse`;
    if (live === undefined) return problem(`${name} does not exist`, APPLY_MANIFESTS);
    if (isExternal(live)) return ok(`the ${name} points outside of the cluster (ExternalName)`);
    return judgeReading(slices, (all) => {
      const { ready, others } = countReady(all);
      const next = podsOf(namespace);
      if (ready === 0) return problem(`the ${name} lacks ready endpoints (${others} not ready)`, next);
      return others > 0
        ? warning(`the ${name} has ${ready} ready endpoints, ${others} not ready`, next)
        : ok(`the ${name} has ${ready} ready endpoints`);
    });
  });
}

const isExternal = ({ spec }: LiveService): boolean => spec?.type === 'ExternalName';

function countReady(slices: readonly EndpointSlice[]) {
  const all = slices.flatMap(({ endpoints }) => endpoints ?? []);
  const ready = all.filter(({ conditions }) => conditions?.ready !== false).length;
  return { ready, others: all.length - ready };
}

export const checkReach = (readings: InstallationReadings): Results =>
  judgeReading(readings.probe, (result) => {
    switch (result.kind) {
      case 'reached':
        return ok('the API server reaches Gatehouse (dry run of a RestoreWindow)');
      case 'not-called':
        return problem(
          'the API server did not call Gatehouse for a RestoreWindow (dry run)',
          `kubectl get mutatingwebhookconfiguration ${WEBHOOK_CONFIGURATION_NAME} -o yaml`,
        );
      case 'unreachable':
        return problem(result.message, adviceFor(result.message, readings));
    }
  });

function adviceFor(message: string, readings: InstallationReadings): string {
  const cause = message.replaceAll(/"https?:[^"]*"/g, ''); // the URL contains the word `timeout`
  if (/x509:|tls: /.test(cause)) return 'see the check ca-bundle';
  if (/service "[^"]*" not found/.test(cause)) return APPLY_MANIFESTS;
  if (/connection refused|no endpoints available|connection reset|EOF/.test(cause))
    return `no process listens there: see the check endpoints, and ${podsOf(readings.namespace)}`;
  if (/deadline exceeded|timeout|timed out|no route to host/i.test(cause)) {
    const port = targetPort(readings);
    return (
      'if the control plane is outside of the network of the nodes (private clusters), allow it in the firewall to connect to ' +
      `TCP port ${port} of the nodes, which is the port of the pods, not of the Service; on GKE: gcloud compute firewall-rules create ` +
      `gatehouse-webhooks --allow tcp:${port} --source-ranges <control plane CIDR> --target-tags <tag of the nodes>. ` +
      'Also check NetworkPolicies'
    );
  }
  return `no replica responds: ${podsOf(readings.namespace)}`;
}

/** The port of the pods: firewalls see the packets after the Service has translated them. */
function targetPort({ slices, service }: InstallationReadings): number {
  const port = valueOf(slices)?.flatMap(({ ports = [] }) => ports)[0]?.port;
  const [declared] = valueOf(service)?.spec?.ports ?? [];
  // Without endpoints, a named port of the Service is the port of deploy/.
  return port ?? (typeof declared?.targetPort === 'number' ? declared.targetPort : 8443);
}

/** No result without a Deployment: Gatehouse possibly runs elsewhere. */
export const checkClients = (readings: InstallationReadings): Results =>
  judgeReading(readings.deployments, (live) => {
    const listening = [...live].filter(([name]) => name !== 'gatehouse-controllers');
    const containers = listening.flatMap(([, { spec }]) => spec?.template.spec.containers ?? []);
    if (containers.length === 0) return [];
    const isSet = containers.every(
      ({ args = [], env = [] }) =>
        args.some((arg) => /^--client-ca(=|$)/.test(arg)) ||
        env.some(({ name }) => name === environmentName('client-ca')),
    );
    return isSet
      ? ok('webhook clients are verified with --client-ca')
      : warning(
          'every client that knows a webhook path can send reviews: Gatehouse runs without --client-ca',
          `${docsUrl('client-certificates.md')}; on managed clusters, restrict the port to the addresses of the API servers`,
        );
  });

export function checkFailClosed(readings: InstallationReadings): Results {
  if (!isDown(readings)) return [];
  const entries = [valueOf(readings.mutating), valueOf(readings.validating)]
    .flatMap((live) => live?.webhooks ?? [])
    .filter(({ failurePolicy }) => failurePolicy !== 'Ignore')
    .map(({ name }) => name);
  if (entries.length === 0) return ok('no replica responds, but no entry rejects requests');
  return problem(
    `no replica responds, so ${entries.length} webhook entries reject all their requests (failurePolicy Fail): ${someOf(entries)}`,
    `start a replica: ${podsOf(readings.namespace)}. Only if that takes too long: kubectl delete ` +
      `mutatingwebhookconfiguration,validatingwebhookconfiguration ${WEBHOOK_CONFIGURATION_NAME} ` +
      '(nothing is checked until a leader creates them again)',
  );
}

function isDown({ service, slices, probe }: InstallationReadings): boolean {
  if (valueOf(probe)?.kind === 'unreachable') return true;
  const [live, all] = [valueOf(service), valueOf(slices)];
  return live !== undefined && !isExternal(live) && all !== undefined && countReady(all).ready === 0;
}

/** The leader restores entries within a second. */
const OVERDUE_MS = 10_000;

export function checkDevSession(readings: InstallationReadings): Results {
  const states = [valueOf(readings.mutating), valueOf(readings.validating)].map((live): DevSessionState =>
    devSessionOf(live ?? {}, readings.now),
  );
  // A session usually owns both configurations and renews them one after the other: report it once.
  const bySession = new Map(
    states.map((state) => [`${state.kind} ${state.kind === 'none' ? '' : (state.session?.id ?? '')}`, state]),
  );
  return [...bySession.values()].flatMap((state) => judge(state, readings));
}

function judge(state: DevSessionState, { namespace, now }: InstallationReadings): Results {
  switch (state.kind) {
    case 'none':
      return [];
    case 'valid': {
      const { holder, url, expiresAt } = state.session;
      return warning(
        `${holder} serves the webhook entries of this cluster at ${url} until ${expiresAt.toISOString()}, or longer if renewed`,
        `writes in this cluster depend on that machine; if this is not intended, ask ${holder} to stop gatehouse serve --dev-url`,
      );
    }
    case 'over': {
      const { session } = state;
      const whose =
        session === undefined
          ? 'an unreadable session'
          : `the session of ${session.holder} at ${session.url}, which ended at ${session.expiresAt.toISOString()}`;
      const seen = `webhook entries still point to ${whose}`;
      if (session !== undefined && isRecent(session.expiresAt, now))
        return warning(seen, 'the leader restores the entries: run this command again in a moment');
      return problem(
        seen,
        `the leader restores the entries; if they remain, see the check leader and ${logsOf(namespace)}. Without a ` +
          `Gatehouse in the cluster: kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration ${WEBHOOK_CONFIGURATION_NAME}`,
      );
    }
  }
}

/** A session with too long a lifetime is over although it ends in the future. */
function isRecent(end: Date, now: Date): boolean {
  const sinceMs = now.getTime() - end.getTime();
  return sinceMs >= 0 && sinceMs < OVERDUE_MS;
}

/** A development session can create a configuration without an owner, which the garbage collector then keeps. */
export function checkRemoval({ namespace, mutating, validating, now }: InstallationReadings): Results {
  const judged = { MutatingWebhookConfiguration: mutating, ValidatingWebhookConfiguration: validating };
  const found = Object.entries(judged).flatMap(([kind, reading]) => {
    const live = valueOf(reading);
    return live === undefined || devSessionOf(live, now).kind !== 'none' ? [] : [{ kind, live }];
  });
  if (found.length === 0) return [];
  const unowned = found.filter(({ live }) => !isOwnedByInstallation(live)).map(({ kind }) => kind);
  if (unowned.length === 0) return ok('the webhook configurations are deleted with Gatehouse');
  return warning(
    `${unowned.join(' and ')} "${WEBHOOK_CONFIGURATION_NAME}" would remain after Gatehouse is removed, and reject all governed requests`,
    `apply the manifests, which include the ClusterRole ${INSTALLATION_ROLE} and the permissions for it: ${APPLY_MANIFESTS}. ` +
      `If the warning is still there after a minute: ${logsOf(namespace)}`,
  );
}
