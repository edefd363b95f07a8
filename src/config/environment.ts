/**
 * The environment variables of settings. Kubernetes sets variables for every Service in the pod's namespace (service links),
 * and the Service `gatehouse` sets `GATEHOUSE_PORT`. Invariant: service links never change a setting or end a process. The
 * value of `<SERVICE>_PORT` is a URL, so it can be ignored. Settings with the names of other service links lack a variable.
 * @see https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables
 */
import type { SettingName } from './settings.ts';
import { isServiceAddress } from './values.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

type Variable =
  | { readonly kind: 'value'; readonly value: string | undefined }
  /** Kubernetes set it, or may have set it. */
  | { readonly kind: 'ignored'; readonly message: string }
  /** Only a user can have set it. */
  | { readonly kind: 'refused'; readonly message: string };

const SERVICE_LINK =
  /^(\w+?)_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$/;

const nameOf = (setting: string): string => `GATEHOUSE_${setting.toUpperCase().replaceAll('-', '_')}`;

/** Undefined: Kubernetes sets the variable with this name. */
export function environmentName(setting: SettingName): string | undefined {
  const name = nameOf(setting);
  return SERVICE_LINK.test(name) ? undefined : name;
}

export function readVariable(setting: SettingName, environment: Environment): Variable {
  const name = nameOf(setting);
  const value = environment[name];
  // `kubectl set env NAME=`, and a field of the Downward API without a value, leave an empty string.
  if (value === undefined || value === '') return { kind: 'value', value: undefined };
  const ignored = (service: string): Variable => ({
    kind: 'ignored',
    message: `${name}=${value} is not used as --${setting}: ${originOf(service)}; enableServiceLinks: false in the pod prevents it`,
  });
  if (name.endsWith('_PORT') && isServiceAddress(value)) return ignored(name.slice(0, -'_PORT'.length));
  const service = SERVICE_LINK.exec(name)?.[1];
  if (service === undefined) return { kind: 'value', value };
  if (environment[`${service}_SERVICE_HOST`] !== undefined) return ignored(service);
  return {
    kind: 'refused',
    message: `${name} cannot set --${setting}: ${originOf(service)}; use the flag, or ${setting} in the file of --config`,
  };
}

const originOf = (service: string): string =>
  `Kubernetes sets this variable in every pod of a namespace with a Service named ${service.toLowerCase().replaceAll('_', '-')}`;

export const hintAt = (value: string): string =>
  isServiceAddress(value)
    ? '; it is the address that Kubernetes gives pods for a Service, in <SERVICE>_PORT'
    : '';
