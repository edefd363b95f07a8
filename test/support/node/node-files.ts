/** The files and command lines of a one-node cluster. */
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { caOf, serviceAccountKeyOf, siteFlags, writeSite } from '../control-plane-site.ts';
import { writeKubeconfig } from '../control-plane-users.ts';

export const NODE_NAME = 'node0';
/** TEST-NET-1 (RFC 5737): nothing outside of the node's network has it. */
const NODE_IP = '192.0.2.10';
const PODS = '10.244.0.0/24';
const SERVICES = '10.96.0.0/16';
/** In the network of the node, which no other process shares. */
const ETCD = 'http://127.0.0.1:2379';
const API_SERVER = `https://${NODE_IP}:6443`;

export type PartName =
  | ('etcd' | 'kube-apiserver' | 'kube-controller-manager' | 'kube-scheduler')
  | ('containerd' | 'kubelet' | 'kube-proxy' | 'network-policies');

export interface NodePrograms {
  readonly controlPlane: string;
  /** kube-scheduler, kubelet, kube-proxy; containerd and its shim, ctr, runc, the plugins of CNI, network-policies. */
  readonly node: string;
}

export interface NodeOptions {
  readonly apiServerFlags?: readonly string[];
  readonly enforcesNetworkPolicies?: boolean;
}

export type NodeSite = ReturnType<typeof createNodeSite>;

/** Components log in with tokens, so the cluster needs only the certificates that its servers make. */
const COMPONENTS = {
  kubelet: [`system:node:${NODE_NAME}`, 'system:nodes'],
  'kube-scheduler': ['system:kube-scheduler', ''],
  'kube-proxy': ['system:kube-proxy', ''],
  'network-policies': ['network-policies', 'system:masters'],
} as const;

export function createNodeSite(folder: string) {
  for (const name of ['cni', 'etcd', 'kubelet', 'containerd', 'pod-logs', 'logs'])
    mkdirSync(join(folder, name), { recursive: true });
  const tokens = writeSite(folder);
  const lines = readFileSync(join(folder, 'tokens.csv'), 'utf8');
  const components = Object.entries(COMPONENTS).map(([component, [user, group]]) => {
    const token = randomBytes(16).toString('hex');
    writeFileSync(join(folder, `${component}.token`), token);
    return `${token},${user},${component}-uid,"${group}"`;
  });
  writeFileSync(join(folder, 'tokens.csv'), `${lines}${components.join('\n')}\n`);
  writeJson(folder, 'cni/10-pods.conflist', {
    cniVersion: '1.0.0',
    name: 'pods',
    plugins: [
      {
        // Routes connect the pods: without a kernel module, NetworkPolicies don't apply to a bridge.
        type: 'ptp',
        ipMasq: false,
        ipam: {
          type: 'host-local',
          ranges: [[{ subnet: PODS }]],
          routes: [{ dst: '0.0.0.0/0' }],
          dataDir: '/run/cni', // a reboot loses it, as it loses the pods
        },
      },
    ],
  });
  writeFileSync(join(folder, 'resolv.conf'), '\n'); // there is no DNS
  return { folder, tokens };
}

export const hasApiServerStarted = (folder: string): boolean =>
  existsSync(join(folder, 'certificates', 'apiserver.crt'));

const writeJson = (folder: string, name: string, content: object): void => {
  writeFileSync(join(folder, name), JSON.stringify(content, undefined, 2)); // JSON is YAML
};

export function writeStartFiles({ folder, tokens }: NodeSite, programs: NodePrograms, cgroup: string): void {
  writeFileSync(join(folder, 'containerd.toml'), containerdConfig(folder, programs));
  writeJson(folder, 'kubelet.yaml', kubeletConfig(folder, cgroup));
  if (!hasApiServerStarted(folder)) return;
  const write = (component: string, token: string) =>
    writeKubeconfig(join(folder, `${component}.kubeconfig`), API_SERVER, caOf({ folder }), token);
  for (const component of Object.keys(COMPONENTS))
    write(component, readFileSync(join(folder, `${component}.token`), 'utf8'));
  write('kube-controller-manager', tokens.controllerManager);
}

/** runc lacks permission to raise priorities here, so containerd 2 must not request it. */
const containerdConfig = (folder: string, { node }: NodePrograms): string => `version = 3
root = '/var/lib/containerd'
state = '/run/containerd'
[grpc]
  address = '/run/containerd/containerd.sock'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '${PAUSE_IMAGE}'
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['${node}']
  conf_dir = '${join(folder, 'cni')}'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
    BinaryName = '${join(node, 'runc')}'
    SystemdCgroup = false
`;

export const PAUSE_IMAGE = 'gatehouse.dev/pause:1';

const kubeletConfig = (folder: string, cgroup: string): object => ({
  apiVersion: 'kubelet.config.k8s.io/v1beta1',
  kind: 'KubeletConfiguration',
  failCgroupV1: false,
  cgroupDriver: 'cgroupfs',
  cgroupRoot: cgroup,
  enforceNodeAllocatable: [],
  containerRuntimeEndpoint: 'unix:///run/containerd/containerd.sock',
  // Only the API server is in this network.
  authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
  authorization: { mode: 'AlwaysAllow' },
  failSwapOn: false,
  clusterDomain: 'cluster.local',
  imageGCHighThresholdPercent: 100,
  evictionHard: { 'memory.available': '100Mi', 'nodefs.available': '0%', 'imagefs.available': '0%' },
  resolvConf: join(folder, 'resolv.conf'),
  syncFrequency: '10s', // mounted Secrets and bundles change within this time, instead of a minute
  podLogsDir: join(folder, 'pod-logs'),
  // Otherwise, an image that is loaded after an attempt to pull it counts as not there.
  imagePullCredentialsVerificationPolicy: 'NeverVerify',
});

export function commandsOf(
  folder: string,
  { controlPlane, node }: NodePrograms,
  { apiServerFlags = [] }: NodeOptions,
): Readonly<Record<PartName, readonly string[]>> {
  const at = (name: string) => join(folder, name);
  return {
    etcd: [
      join(controlPlane, 'etcd'),
      `--data-dir=${at('etcd')}`,
      `--listen-client-urls=${ETCD}`,
      `--advertise-client-urls=${ETCD}`,
      '--unsafe-no-fsync', // test data need not survive a power failure
    ],
    'kube-apiserver': [
      join(controlPlane, 'kube-apiserver'),
      `--etcd-servers=${ETCD}`,
      '--secure-port=6443',
      `--advertise-address=${NODE_IP}`,
      `--service-cluster-ip-range=${SERVICES}`,
      '--authorization-mode=Node,RBAC',
      '--enable-admission-plugins=NodeRestriction',
      '--kubelet-preferred-address-types=InternalIP', // there is no DNS
      '--service-account-issuer=https://kubernetes.default.svc.cluster.local',
      ...siteFlags(folder),
      ...apiServerFlags,
    ],
    'kube-controller-manager': [
      join(controlPlane, 'kube-controller-manager'),
      `--kubeconfig=${at('kube-controller-manager.kubeconfig')}`,
      '--leader-elect=false',
      '--use-service-account-credentials',
      `--service-account-private-key-file=${serviceAccountKeyOf(folder)}`,
      `--root-ca-file=${join(folder, 'certificates', 'apiserver.crt')}`,
      '--cert-dir=/run/kube-controller-manager',
    ],
    'kube-scheduler': [
      join(node, 'kube-scheduler'),
      `--kubeconfig=${at('kube-scheduler.kubeconfig')}`,
      '--leader-elect=false',
      '--cert-dir=/run/kube-scheduler',
    ],
    containerd: [join(node, 'containerd'), '--config', at('containerd.toml')],
    kubelet: [
      join(node, 'kubelet'),
      `--kubeconfig=${at('kubelet.kubeconfig')}`,
      `--config=${at('kubelet.yaml')}`,
      `--hostname-override=${NODE_NAME}`,
      `--node-ip=${NODE_IP}`,
      '--cert-dir=/run/kubelet-pki',
    ],
    'kube-proxy': [
      join(node, 'kube-proxy'),
      `--kubeconfig=${at('kube-proxy.kubeconfig')}`,
      '--proxy-mode=nftables',
      `--cluster-cidr=${PODS}`,
      `--hostname-override=${NODE_NAME}`,
      '--conntrack-max-per-core=0',
    ],
    'network-policies': [
      join(node, 'network-policies'),
      ...[at('network-policies.kubeconfig'), NODE_NAME, SERVICES],
    ],
  };
}

/**
 * The node's first process: it makes the network and the folders that a reboot loses.
 * @param cgroup the cgroup of all pods, in every hierarchy
 */
export const initScript = (folder: string, cgroup: string): string => `set -eu
mount --make-rshared /
for lost in /run /var/log /var/lib; do mount -t tmpfs -o mode=755 tmpfs $lost; done
for kept in kubelet containerd; do mkdir /var/lib/$kept; mount --bind '${folder}'/$kept /var/lib/$kept; done
mkdir -p /run/netns /run/containerd
for hierarchy in /sys/fs/cgroup/*/; do
  case $hierarchy in */unified/) continue ;; esac
  mkdir -p "$hierarchy${cgroup}"
  if [[ -e $hierarchy/cpuset.cpus ]]; then
    for what in cpus mems; do cat "$hierarchy/cpuset.$what" >"$hierarchy${cgroup}/cpuset.$what"; done
  fi
done
ip link set lo up
ip link add node0 type veth peer name node0p
ip link set node0p up
ip addr add ${NODE_IP}/24 dev node0
ip link set node0 up
ip route add default dev node0
echo 1 >/proc/sys/net/ipv4/ip_forward
touch '${folder}/booted'
while :; do sleep 3600 & wait $!; done
`;

/** Copies connections from a socket in the folder to the API server, in the network of the node. */
export const FORWARDER = `
const net = require('node:net');
net.createServer((one) => {
  const other = net.connect(6443, '127.0.0.1');
  for (const [from, to] of [[one, other], [other, one]]) {
    from.pipe(to);
    from.on('error', () => to.destroy()).on('close', () => to.destroy());
  }
}).listen(process.argv[1]);
`;
