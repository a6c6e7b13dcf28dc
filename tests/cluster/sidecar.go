// The relay of a service mesh's sidecar for `deno task test:cluster`: passes on the connections that the pod's rules redirect to it.
// What comes in is connected to the pod from 127.0.0.6 or ::6, what goes out to where the client wanted to go, both as user 1337,
// which the rules leave alone. It prints each connection, with the addresses as they were before the redirection.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"
)

const (
	user = 1337
	// SO_ORIGINAL_DST of linux/netfilter_ipv4.h, and IP6T_SO_ORIGINAL_DST.
	originalDestination = 80
	// Longer than a client waits, so that silence stays silence.
	connectTimeout = 15 * time.Second
)

type direction struct {
	name string
	port int
	// Addresses to connect from, by network.
	from map[string]string
}

func main() {
	directions := []direction{
		{"outbound", 15001, nil},
		{"inbound", 15006, map[string]string{"tcp4": "127.0.0.6", "tcp6": "::6"}},
	}
	must(syscall.Setgid(user))
	must(syscall.Setuid(user))
	for _, it := range directions {
		for _, network := range []string{"tcp4", "tcp6"} {
			listener, err := net.ListenTCP(network, &net.TCPAddr{Port: it.port})
			must(err)
			go serve(it, network, listener)
		}
	}
	fmt.Println("ready")
	select {}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(it direction, network string, listener *net.TCPListener) {
	for {
		client, err := listener.AcceptTCP()
		must(err)
		go relay(it, network, client)
	}
}

func relay(it direction, network string, client *net.TCPConn) {
	defer client.Close()
	to, err := destinationOf(client, network)
	if err != nil {
		fmt.Println(it.name, err)
		return
	}
	fmt.Println(it.name, "from", client.RemoteAddr(), "to", to)
	dialer := net.Dialer{Timeout: connectTimeout}
	if from, ok := it.from[network]; ok {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	connection, err := dialer.Dial(network, to.String())
	if err != nil {
		fmt.Println(it.name, err)
		client.SetLinger(0) // resets it
		return
	}
	defer connection.Close()
	server := connection.(*net.TCPConn)
	done := make(chan struct{})
	go func() {
		io.Copy(server, client)
		server.CloseWrite()
		close(done)
	}()
	io.Copy(client, server)
	client.CloseWrite()
	<-done
}

// destinationOf returns where a connection went before its redirection.
func destinationOf(connection *net.TCPConn, network string) (netip.AddrPort, error) {
	level := map[string]int{"tcp4": syscall.IPPROTO_IP, "tcp6": syscall.IPPROTO_IPV6}[network]
	raw, err := connection.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, err
	}
	var info *syscall.IPv6MTUInfo
	var failed error
	err = raw.Control(func(descriptor uintptr) {
		// The only function of the package whose answer is long enough for an IPv6 address with its port.
		info, failed = syscall.GetsockoptIPv6MTUInfo(int(descriptor), level, originalDestination)
	})
	if err = errors.Join(err, failed); err != nil {
		return netip.AddrPort{}, fmt.Errorf("no original destination of a connection to %s: %w", connection.LocalAddr(), err)
	}
	address := info.Addr
	port := (*[2]byte)(unsafe.Pointer(&address.Port))
	ip := netip.AddrFrom16(address.Addr)
	if network == "tcp4" {
		// A sockaddr_in has its address where a sockaddr_in6 has its flow label.
		ip = netip.AddrFrom4(*(*[4]byte)(unsafe.Pointer(&address.Flowinfo)))
	}
	return netip.AddrPortFrom(ip, uint16(port[0])<<8|uint16(port[1])), nil
}
