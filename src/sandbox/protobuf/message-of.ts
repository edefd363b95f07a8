import { MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION } from './messages-admission.ts';
import { API_SERVICE } from './messages-api-service.ts';
import { DEPLOYMENT, REPLICA_SET } from './messages-apps.ts';
import { SELF_SUBJECT_REVIEW, TOKEN_REQUEST, TOKEN_REVIEW } from './messages-authentication.ts';
import {
  LOCAL_SUBJECT_ACCESS_REVIEW,
  SELF_SUBJECT_ACCESS_REVIEW,
  SELF_SUBJECT_RULES_REVIEW,
  SUBJECT_ACCESS_REVIEW,
} from './messages-authorization.ts';
import { LEASE } from './messages-coordination.ts';
import { EVENT as CORE_EVENT } from './messages-core-event.ts';
import { CONFIG_MAP, NAMESPACE, SECRET, SERVICE_ACCOUNT } from './messages-core.ts';
import { CUSTOM_RESOURCE_DEFINITION } from './messages-definitions.ts';
import { ENDPOINT_SLICE } from './messages-discovery.ts';
import { EVENT } from './messages-events.ts';
import { DELETE_OPTIONS } from './messages-meta.ts';
import { NETWORK_POLICY } from './messages-networking.ts';
import { POD } from './messages-pod.ts';
import { POD_DISRUPTION_BUDGET } from './messages-policy.ts';
import { CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING } from './messages-rbac.ts';
import { ENDPOINTS, SERVICE } from './messages-service.ts';
import type { Message } from './wire.ts';

const MESSAGES = {
  v1: {
    ConfigMap: CONFIG_MAP,
    Endpoints: ENDPOINTS,
    Event: CORE_EVENT,
    Namespace: NAMESPACE,
    Pod: POD,
    Secret: SECRET,
    Service: SERVICE,
    ServiceAccount: SERVICE_ACCOUNT,
  },
  'admissionregistration.k8s.io/v1': {
    MutatingWebhookConfiguration: MUTATING_WEBHOOK_CONFIGURATION,
    ValidatingWebhookConfiguration: VALIDATING_WEBHOOK_CONFIGURATION,
  },
  'apiextensions.k8s.io/v1': { CustomResourceDefinition: CUSTOM_RESOURCE_DEFINITION },
  'apiregistration.k8s.io/v1': { APIService: API_SERVICE },
  'apps/v1': { Deployment: DEPLOYMENT, ReplicaSet: REPLICA_SET },
  'authentication.k8s.io/v1': {
    SelfSubjectReview: SELF_SUBJECT_REVIEW,
    TokenRequest: TOKEN_REQUEST,
    TokenReview: TOKEN_REVIEW,
  },
  'authorization.k8s.io/v1': {
    LocalSubjectAccessReview: LOCAL_SUBJECT_ACCESS_REVIEW,
    SelfSubjectAccessReview: SELF_SUBJECT_ACCESS_REVIEW,
    SelfSubjectRulesReview: SELF_SUBJECT_RULES_REVIEW,
    SubjectAccessReview: SUBJECT_ACCESS_REVIEW,
  },
  'coordination.k8s.io/v1': { Lease: LEASE },
  'discovery.k8s.io/v1': { EndpointSlice: ENDPOINT_SLICE },
  'events.k8s.io/v1': { Event: EVENT },
  'networking.k8s.io/v1': { NetworkPolicy: NETWORK_POLICY },
  'policy/v1': { PodDisruptionBudget: POD_DISRUPTION_BUDGET },
  'rbac.authorization.k8s.io/v1': {
    ClusterRole: CLUSTER_ROLE,
    ClusterRoleBinding: CLUSTER_ROLE_BINDING,
    Role: ROLE,
    RoleBinding: ROLE_BINDING,
  },
} satisfies Readonly<Record<string, Readonly<Record<string, Message>>>>;

const BY_KIND: ReadonlyMap<string, Message> = new Map(
  Object.entries(MESSAGES).flatMap(([apiVersion, kinds]) =>
    Object.entries(kinds).map(([kind, message]) => [`${apiVersion}/${kind}`, message] as const),
  ),
);

/** The message that holds objects of a kind; undefined when the sandbox has no table for it. */
export function messageOf(apiVersion: string, kind: string): Message | undefined {
  // A client writes these in the version of whatever it deletes.
  return kind === 'DeleteOptions' ? DELETE_OPTIONS : BY_KIND.get(`${apiVersion}/${kind}`);
}
