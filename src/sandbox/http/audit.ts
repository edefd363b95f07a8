import type { RequestInfo, UserInfo } from '../../machinery/request.ts';

/**
 * The fields of an audit.k8s.io/v1 Event that the sandbox sets, at level Metadata. One event per finished request.
 */
export interface AuditEvent {
  readonly kind: 'Event';
  readonly apiVersion: 'audit.k8s.io/v1';
  readonly level: 'Metadata';
  readonly stage: 'ResponseComplete';
  readonly auditID: string;
  readonly verb: string;
  readonly requestURI: string;
  readonly requestReceivedTimestamp: string;
  readonly stageTimestamp: string;
  readonly user: UserInfo;
  readonly impersonatedUser?: UserInfo;
  readonly userAgent: string;
  readonly objectRef?: {
    readonly apiGroup?: string;
    readonly apiVersion: string;
    readonly resource: string;
    readonly subresource?: string;
    readonly namespace?: string;
    readonly name?: string;
  };
  readonly responseStatus: { readonly code: number };
  readonly annotations: Readonly<Record<string, string>>;
}

export interface Finished {
  readonly auditId: string;
  readonly info: RequestInfo;
  readonly uri: string;
  readonly receivedAt: Date;
  readonly finishedAt: Date;
  readonly user: UserInfo;
  readonly impersonated: UserInfo | undefined;
  readonly userAgent: string;
  /** The name of the created object, which the path does not contain. */
  readonly createdName: string;
  readonly code: number;
  readonly annotations: Readonly<Record<string, string>>;
}

export function auditEventOf(request: Finished): AuditEvent {
  const { info } = request;
  return {
    kind: 'Event',
    apiVersion: 'audit.k8s.io/v1',
    level: 'Metadata',
    stage: 'ResponseComplete',
    auditID: request.auditId,
    verb: info.verb,
    requestURI: request.uri,
    requestReceivedTimestamp: request.receivedAt.toISOString(),
    stageTimestamp: request.finishedAt.toISOString(),
    user: request.user,
    ...(request.impersonated === undefined ? {} : { impersonatedUser: request.impersonated }),
    userAgent: request.userAgent,
    ...(info.kind === 'path' ? {} : { objectRef: objectRefOf(info, request.createdName) }),
    responseStatus: { code: request.code },
    annotations: request.annotations,
  };
}

function objectRefOf(
  info: Extract<RequestInfo, { kind: 'resource' }>,
  createdName: string,
): NonNullable<AuditEvent['objectRef']> {
  const name = info.name === '' ? createdName : info.name;
  return {
    ...(info.group === '' ? {} : { apiGroup: info.group }),
    apiVersion: info.version,
    resource: info.resource,
    ...(info.subresource === '' ? {} : { subresource: info.subresource }),
    ...(info.namespace === '' ? {} : { namespace: info.namespace }),
    ...(name === '' ? {} : { name }),
  };
}
