// SPDX-License-Identifier: GPL-3.0-or-later

// A real kubelet with one fault, which is chosen when it is linked: -X main.fault=NAME.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kubelet/app"
)

const lifetime = 3 * time.Second

var fault string

func main() {
	switch fault {
	case "never-ready":
		// No request reaches the API server, as behind a proxy that is down. The process runs, its healthz
		// answers, pods stay; the Node keeps the conditions that an earlier kubelet wrote.
		for _, name := range []string{"NO_PROXY", "no_proxy"} {
			os.Unsetenv(name)
		}
		for _, name := range []string{"HTTPS_PROXY", "https_proxy"} {
			os.Setenv(name, "http://127.0.0.1:9")
		}
	case "stops":
		// Long enough to be Ready, too short to be of use.
		time.AfterFunc(lifetime, func() {
			fmt.Fprintf(os.Stderr, "panic: kubelet of the testbed: stopped after %s\n", lifetime)
			os.Exit(2)
		})
	default:
		panic("unknown fault " + fault)
	}
	os.Exit(cli.Run(app.NewKubeletCommand(context.Background())))
}
