/** Whether the API server asks Gatehouse, and gets an answer. */
import { OPENING_ENTRY } from '../../../../admission/webhooks/own-entries.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../../../admission/webhooks/webhook-configurations.ts';
import type { EndpointSlice, Evidence, LiveConfiguration, LiveService } from '../evidence.ts';
import { ok, orElse, problem, someOf, warning, type Finding } from '../finding.ts';
import { judgeLook, valueOf } from '../look.ts';

type Webhooks = Pick<Evidence, 'namespace' | 'service' | 'slices' | 'mutating' | 'validating' | 'probe'>;

const CONFIGURATIONS = 'webhook-configurations';
const ENDPOINTS = 'endpoints';
const REACH = 'webhook-reach';
const FAIL_CLOSED = 'fail-closed';

const pods = (namespace: string) => `kubectl -n ${namespace} get pods -l app.kubernetes.io/name=gatehouse`;

/** Nobody is asked without them. */
export function checkConfigurations({ namespace, mutating, validating }: Webhooks): readonly Finding[] {
  const next = `look why the leader does not write them: kubectl -n ${namespace} logs deployment/gatehouse`;
  const judge = (kind: string) => (live: LiveConfiguration | undefined) => {
    if (live === undefined)
      return [
        problem(
          CONFIGURATIONS,
          `there is no ${kind} "${WEBHOOK_CONFIGURATION_NAME}": nothing is enforced`,
          next,
        ),
      ];
    const names = (live.webhooks ?? []).map(({ name }) => name);
    return names.some((name) => name.startsWith(`${OPENING_ENTRY}.`))
      ? [ok(CONFIGURATIONS, `the ${kind} has ${names.length} entries`)]
      : [problem(CONFIGURATIONS, `the ${kind} lacks the entries for Gatehouse's own kinds`, next)];
  };
  return [
    ...judgeLook(CONFIGURATIONS, mutating, judge('MutatingWebhookConfiguration')),
    ...judgeLook(CONFIGURATIONS, validating, judge('ValidatingWebhookConfiguration')),
  ];
}

/** Whether somebody stands behind the Service. */
export function checkEndpoints({ namespace, service, slices }: Webhooks): readonly Finding[] {
  return judgeLook(ENDPOINTS, service, (live) => {
    const name = `Service ${namespace}/gatehouse`;
    if (live === undefined) return [problem(ENDPOINTS, `there is no ${name}`, 'kubectl apply -k deploy')];
    if (isExternal(live)) return [ok(ENDPOINTS, `the ${name} leads out of the cluster (ExternalName)`)];
    return judgeLook(ENDPOINTS, slices, (all) => {
      const { ready, others } = countReady(all);
      if (ready === 0)
        return [
          problem(ENDPOINTS, `the ${name} has no ready endpoint (${others} not ready)`, pods(namespace)),
        ];
      return others > 0
        ? [warning(ENDPOINTS, `the ${name} has ${ready} ready endpoints, ${others} are not`, pods(namespace))]
        : [ok(ENDPOINTS, `the ${name} has ${ready} ready endpoints`)];
    });
  });
}

const isExternal = ({ spec }: LiveService): boolean => spec?.type === 'ExternalName';

function countReady(slices: readonly EndpointSlice[]) {
  const all = slices.flatMap(({ endpoints }) => endpoints ?? []);
  const ready = all.filter(({ conditions }) => conditions?.ready !== false).length;
  return { ready, others: all.length - ready };
}

/** Whether a request of the API server comes back with our answer. */
export const checkReach = (webhooks: Webhooks): readonly Finding[] =>
  judgeLook(REACH, webhooks.probe, (answer) => {
    switch (answer.kind) {
      case 'answered':
        return [ok(REACH, 'Gatehouse has judged a dry run that the API server sent to it')];
      case 'not-asked':
        return [
          problem(
            REACH,
            'the API server did not ask Gatehouse about a RestoreWindow (dry run)',
            `kubectl get mutatingwebhookconfiguration ${WEBHOOK_CONFIGURATION_NAME} -o yaml`,
          ),
        ];
      case 'unanswered':
        return [problem(REACH, answer.message, adviceFor(answer.message, webhooks))];
    }
  });

function adviceFor(message: string, webhooks: Webhooks): string {
  if (/deadline exceeded|timeout|timed out/i.test(message)) {
    const port = targetPort(webhooks);
    return (
      'where the control plane is outside of the network of the nodes (private clusters), its firewall has to let it reach ' +
      `TCP ${port} on them, the port of the pods and not that of the Service; on GKE: gcloud compute firewall-rules create ` +
      `gatehouse-webhooks --allow tcp:${port} --source-ranges <control plane CIDR> --target-tags <tag of the nodes>. ` +
      'Look for a NetworkPolicy too'
    );
  }
  if (/x509|certificate/.test(message)) return 'see the check ca-bundle';
  if (/service "?[^"]*"? not found/.test(message)) return 'kubectl apply -k deploy';
  return `nobody answers: ${pods(webhooks.namespace)}`;
}

/** Where packets go: a firewall knows nothing of Services. */
function targetPort({ slices, service }: Webhooks): number | string {
  const port = valueOf(slices)?.flatMap(({ ports = [] }) => ports)[0]?.port;
  const [declared] = valueOf(service)?.spec?.ports ?? [];
  return port ?? declared?.targetPort ?? declared?.port ?? 8443;
}

/** What cannot be written while nobody answers. */
export function checkFailClosed(webhooks: Webhooks): readonly Finding[] {
  if (!nobodyAnswers(webhooks)) return [];
  const entries = [valueOf(webhooks.mutating), valueOf(webhooks.validating)]
    .flatMap((live) => live?.webhooks ?? [])
    .filter(({ failurePolicy }) => failurePolicy !== 'Ignore')
    .map(({ name }) => name);
  return orElse(
    entries.length === 0
      ? []
      : [
          problem(
            FAIL_CLOSED,
            `no replica answers, and ${entries.length} webhook entries refuse what they govern meanwhile (failurePolicy Fail): ${someOf(entries)}`,
            `bring a replica up: ${pods(webhooks.namespace)}. Only if that takes too long: kubectl delete ` +
              `mutatingwebhookconfiguration,validatingwebhookconfiguration ${WEBHOOK_CONFIGURATION_NAME} ` +
              '(nothing is checked until a leader makes them anew)',
          ),
        ],
    ok(FAIL_CLOSED, 'no replica answers, but no entry refuses requests meanwhile'),
  );
}

function nobodyAnswers({ service, slices, probe }: Webhooks): boolean {
  if (valueOf(probe)?.kind === 'unanswered') return true;
  const live = valueOf(service);
  const all = valueOf(slices);
  return live !== undefined && !isExternal(live) && all !== undefined && countReady(all).ready === 0;
}
